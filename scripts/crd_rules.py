r"""What the models of our objects check in Python, said again in CEL for the API server, field by field.

`RULES` is keyed by kind and path; scripts/crds.py puts each rule at its place. A rule never refuses what the model
takes, and its message is the model's, word for word. What CEL cannot say is in `TOLD_IN_STATUS`: such an object is
admitted, and its condition `Accepted` says what `pilotlight check` would. Tests hold that each validator of a model
has its rule, and that rules and models agree on a real API server.

Of the API server's limits: `string(number)` has no bound that its cost estimate knows, `format` has; every text that
a rule reads needs a `maxLength`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from activator_ext.adapters.local.durations import MAX_S
from activator_ext.adapters.local.hold import INSTANT, LONGEST

LONGEST_DURATION = 80
"""Characters of the longest text that durations.py reads: four numbers of nine digits, a point, nine digits, a unit."""
LONGEST_NAME = 253
"""Characters of a Kubernetes name."""


@dataclass(frozen=True)
class Rule:
    """One CEL rule. `%s` and `%d` of `message` stand for `values`, in CEL; `field`: the path below that it is about."""

    rule: str
    message: str
    values: tuple[str, ...] = ()
    field: str = ""


@dataclass(frozen=True)
class At:
    """What stands at one path. `max_length`: of a text that the model bounds otherwise, for CEL's cost estimate."""

    rules: tuple[Rule, ...]
    max_length: int | None = None


def literal(text: str) -> str:
    """A text in CEL, which reads a backslash itself."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _matches(pattern: str) -> str:
    return f"self.matches({literal(f'^({pattern})$')})"


def _clipped(most: int, mark: str = "") -> str:
    """CEL for the value, clipped as the model's message clips it."""
    return f'size(self) <= {most} ? self : self.substring(0, {most}) + "{mark}"'


_VALUE = (_clipped(80, "…"),)

_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_IS_DURATION = _matches("".join(f"([0-9]{{1,9}}([.][0-9]{{1,9}})?{unit})?" for unit in _UNITS)) + ' && self != ""'
_DURATION_FIX = "Write one like 45s, 10m, 1h30m or 28d."
# Summed in the order that durations.py does, so that no rounding tells the two apart.
_SECONDS = " + ".join(
    f'(self.contains("{unit}") ? double(self.find("[0-9.]+{unit}").replace("{unit}", "")) * {length}.0 : 0.0)'
    for unit, length in _UNITS.items()
)


def _if_duration(rule: str) -> str:
    """Holds as well for what is no duration, which has its own rule."""
    return f"!({_IS_DURATION}) || {rule}"


_DURATION = (
    Rule(_IS_DURATION, f"'%s' is not a duration. {_DURATION_FIX}", (_clipped(40),)),
    Rule(
        _if_duration(f"{_SECONDS} <= {MAX_S}"),
        "'%s' is longer than a year. Write a shorter duration.",
        (_clipped(40),),
    ),
)
_POSITIVE = (*_DURATION, Rule(_if_duration('self.matches("[1-9]")'), f"it must be longer than 0. {_DURATION_FIX}"))
DURATION = At(_DURATION, LONGEST_DURATION)
POSITIVE = At(_POSITIVE, LONGEST_DURATION)

NAME = At(
    (
        Rule(
            _matches(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
            "'%s' is not a name that Kubernetes takes. "
            "Use 1 to 253 of a-z, 0-9, - and ., with a letter or digit at the ends of each part.",
            _VALUE,
        ),
    ),
    LONGEST_NAME,
)
MONEY = At(
    (
        Rule(
            _matches(r"[0-9]{1,9}([.][0-9]{1,2})? [A-Z]{3}"),
            "it is not an amount of money. Write amount and currency, as in 300 EUR.",
        ),
    ),
    16,
)
_IS_INSTANT = _matches(INSTANT)
INSTANTS = At(
    (
        Rule(_IS_INSTANT, "'%s' is not an instant. Write one like 2026-12-01T09:00:00+01:00.", _VALUE),
        # Fails for the 29th of February of a year that has none.
        Rule(
            f'!({_IS_INSTANT}) || timestamp(self) > timestamp("0001-01-01T00:00:00Z")',
            "'%s' is on no calendar. Write one like 2026-12-01T09:00:00+01:00.",
            _VALUE,
        ),
    ),
    40,
)
_IS_ZONE = _matches("[A-Za-z0-9_+/-]+")
_ZONE_MESSAGE = "timeZone '%s' is no time zone. Write an IANA name such as Europe/Madrid."
ZONE = At(
    (
        Rule(_IS_ZONE, _ZONE_MESSAGE, _VALUE),
        # Fails for a name that the API server's own table, which CronJobs use too, does not have.
        Rule(f'!{_IS_ZONE} || timestamp("2026-01-01T00:00:00Z").getHours(self) >= 0', _ZONE_MESSAGE, _VALUE),
    )
)


def _field(value: str, more: str = "") -> str:
    """A pattern of one field of a cron expression: a list of values, ranges and steps."""
    item = f"(([*]|{value}(-{value})?)(/0*[1-9][0-9]*)?{more})"
    return f"({item}(,{item})*)"


_DAY_OF_WEEK = "(0*[0-7]|sun|mon|tue|wed|thu|fri|sat)"
_CRON_FIELDS = (
    _field("(0*[0-5]?[0-9])"),
    _field("(0*(2[0-3]|1?[0-9]))"),
    _field("(0*(3[01]|[12][0-9]|[1-9]))"),
    _field("(0*(1[0-2]|[1-9])|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"),
    _field(_DAY_OF_WEEK, f"|{_DAY_OF_WEEK}#0*[1-5]"),
)
_CRON = r"(?i)^\s*" + r"\s+".join(_CRON_FIELDS) + r"\s*$"
_CRON_FIX = "Write minute, hour, day of month, month, day of week, such as '0 9 * * 1-5'."
_WORDS = r'self.findAll("\\S+")'
_FIVE = f"size({_WORDS}) == 5"
_LAST = f'({_WORDS}[2].matches("[lL]") || {_WORDS}[4].matches("[lL]"))'


def _cron(key: str) -> At:
    """The rules of one cron expression, whose messages name its key."""
    last = f"{key} '%s': `L` (last) is not supported. Name the days, such as 28 or 5#4."
    return At(
        (
            Rule(_FIVE, f"{key} '%s' has %d fields, not five. {_CRON_FIX}", (*_VALUE, f"size({_WORDS})")),
            Rule(f"!({_FIVE}) || !{_LAST}", last, _VALUE),
            Rule(
                f"!({_FIVE}) || {_LAST} || self.matches({literal(_CRON)})",
                f"{key} '%s' is no cron expression. {_CRON_FIX}",
                _VALUE,
            ),
        )
    )


_REQUIRED_REF = Rule(
    'self.metadata.name == "default" || has(self.spec) && has(self.spec.serviceRef)',
    "it is required: serviceRef. Write serviceRef: {name: SERVICE}, or name the policy default: "
    "it is then for each service.",
    field=".spec",
)
_ORDERED = Rule(
    "!has(self.min) || !has(self.max) || self.min <= self.max",
    "min %d is more than max %d. Raise max or lower min.",
    ("self.min", "self.max"),
)
_ONE_BEGIN = Rule(
    "has(self.readyBy) != has(self.start)",
    "set exactly one of readyBy (warm by then) and start (asked for then). See the example policy.",
)
_ONE_SOURCE = Rule(
    "!has(self.sources) || !has(self.prometheus)", "sources and prometheus exclude each other. Keep one of them."
)
_TOKENS_FIT = Rule(
    "!has(self.tokens) || size(self.tokens) <= self.maxTokens",
    "%d tokens are more than maxTokens %d. Write maxTokens: %d or fewer tokens (at most 64).",
    ("size(self.tokens)", "self.maxTokens", "size(self.tokens) < 64 ? size(self.tokens) : 64"),
)
_LONGEST_S = int(LONGEST.total_seconds())
_TOO_LONG = f"the hold is longer than {LONGEST.days} days. Write an earlier end, or a schedule in a policy."
_BOTH_INSTANTS = "!has(self.until) || !has(self.readyBy)"
_HOLD = (
    Rule(
        "has(self.until) != has(self.__for__)",
        "set exactly one of until and for. A hold always ends: write until or for.",
    ),
    Rule(
        f"{_BOTH_INSTANTS} || timestamp(self.until) > timestamp(self.readyBy)",
        "until is not after readyBy. Write a later until.",
        field=".until",
    ),
    Rule(
        f'{_BOTH_INSTANTS} || timestamp(self.until) - timestamp(self.readyBy) <= duration("{_LONGEST_S}s")',
        _TOO_LONG,
        field=".until",
    ),
)

RULES: Mapping[str, Mapping[str, At]] = {
    "PrewarmPolicy": {
        "": At((_REQUIRED_REF,)),
        "spec.serviceRef.name": NAME,
        "spec.bounds": At((_ORDERED,)),
        "spec.objective.window": POSITIVE,
        "spec.objective.monthlyBudget": MONEY,
        "spec.coldStartCost": DURATION,
        "spec.schedules[]": At((_ONE_BEGIN,)),
        "spec.schedules[].timeZone": ZONE,
        "spec.schedules[].readyBy": _cron("readyBy"),
        "spec.schedules[].start": _cron("start"),
        "spec.schedules[].until": _cron("until"),
        "spec.queue": At((_ONE_SOURCE,)),
        "spec.golden": At((_TOKENS_FIT,)),
        "spec.leadTime.prior": POSITIVE,
        "spec.parking.pool": NAME,
    },
    "PrewarmHold": {
        "spec": At(_HOLD),
        "spec.serviceRef": At(
            (Rule("self == oldSelf", "a hold stays with its service. Delete it and make another one."),)
        ),
        "spec.serviceRef.name": NAME,
        "spec.readyBy": INSTANTS,
        "spec.until": INSTANTS,
        "spec.for": At((*_POSITIVE, Rule(_if_duration(f"{_SECONDS} <= {_LONGEST_S}.0"), _TOO_LONG)), LONGEST_DURATION),
    },
}
"""Every rule. `[]` stands for the items of a list."""

TOLD_IN_STATUS: Mapping[str, str] = {
    "a range that runs backwards, `50-10 * * * *`": "CEL has no words for it that its cost limit admits",
    "an expression that never fires, `0 0 30 2 *`": "the same",
    "a `serviceRef` that names no service": "the service may come later",
    "a second policy for one service": "an object does not see others",
    "a hold without `readyBy` whose `until` is more than 31 days after its creation": "CEL does not see that time",
}
"""What the API server admits and the condition Accepted then refuses, and why."""
