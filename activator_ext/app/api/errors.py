"""Every refusal of the API in one shape: `{"error": {"code", "message"}}`, the message naming the fix."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from activator_ext.adapters.history import HistoryError
from activator_ext.app.views import HoldRequest, InvalidRequest, UnknownService
from activator_ext.core.visible import visible


class ErrorDetail(BaseModel):
    """What went wrong. `code` is stable, for programs; `message` is for people and says what to do."""

    code: str
    message: str


class ErrorView(BaseModel):
    """The body of every answer from 400 on."""

    error: ErrorDetail = Field(
        examples=[{"code": "unknown-service", "message": "no service team-a/chatt; there are: team-a/chat"}]
    )


class NotFound(Exception):
    """No start or hold of that id; the message says where to look."""


_HINTS: Mapping[str, str] = {
    "missing": "add it",
    "extra_forbidden": f"there is no such field; write some of {', '.join(HoldRequest.model_fields)}",
    "timezone_aware": "add the offset, as in 2026-12-01T09:00:00+01:00",
    "json_invalid": "send one JSON object, with Content-Type: application/json",
}


_SHOWN = 80
"""Characters of a value that a message repeats."""


def error_response(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """One refusal."""
    # The message may repeat what was sent, half a surrogate included, which no JSON can be encoded with.
    content = ErrorView(error=ErrorDetail(code=code, message=visible(message))).model_dump()
    return JSONResponse(content, status_code=status, headers=headers)


def add_error_handlers(app: FastAPI) -> None:
    """Answer the facade's errors, validation errors and unforeseen ones in this API's shape."""

    @app.exception_handler(UnknownService)
    async def unknown_service(_: Request, error: UnknownService) -> JSONResponse:
        return error_response(404, "unknown-service", str(error))

    @app.exception_handler(NotFound)
    async def not_found(_: Request, error: NotFound) -> JSONResponse:
        return error_response(404, "not-found", str(error))

    @app.exception_handler(InvalidRequest)
    async def invalid_request(_: Request, error: InvalidRequest) -> JSONResponse:
        return error_response(400, "invalid-request", str(error))

    @app.exception_handler(HistoryError)
    async def history(_: Request, error: HistoryError) -> JSONResponse:
        return error_response(503, "history", f"{error}; nothing was changed, ask again", {"retry-after": "1"})

    @app.exception_handler(RequestValidationError)
    async def validation(_: Request, error: RequestValidationError) -> JSONResponse:
        return error_response(422, "invalid-field", "; ".join(_sentence(each) for each in error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        messages = {
            400: ("invalid-body", "the body cannot be read: send one flat JSON object, in UTF-8"),
            404: ("no-such-path", f"there is no {request.url.path}; /docs lists the paths"),
            405: ("no-such-method", f"{request.url.path} does not take {request.method}; /docs lists the methods"),
        }
        code, message = messages.get(error.status_code, ("refused", str(error.detail)))
        return error_response(error.status_code, code, message, error.headers)

    @app.exception_handler(Exception)
    async def unforeseen(_: Request, error: Exception) -> JSONResponse:
        message = f"{type(error).__name__} inside Pilotlight; its log has the trace, please report it"
        return error_response(500, "internal", message)


def _sentence(error: Mapping[str, Any]) -> str:
    """`body.for_s: Input should be greater than 0, got -5`, and what to do where that does not say it."""
    kind = str(error["type"])
    # The location of broken JSON ends in the offset of the break, an integer.
    where = ".".join(str(part) for part in error["loc"])
    given = error.get("input")
    got = f", got {_clipped(given)}" if isinstance(given, str | int | float) and kind != "extra_forbidden" else ""
    hint = f" ({_HINTS[kind]})" if kind in _HINTS else ""
    return f"{where}: {error['msg']}{got}{hint}"


def _clipped(given: object) -> str:
    """A value as it was sent, so much of it that it is known again."""
    text = repr(given)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
