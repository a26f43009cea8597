// Asks one question, given as JSON on stdin, with node's fetch or its http module, and tells what came of it as JSON.
import http from "node:http";
import { text } from "node:stream/consumers";

const asked = JSON.parse(await text(process.stdin));
const headers = { "Content-Type": "application/json" };
const said = { status: 0, body: "", error: "" };

async function read(chunks) {
  const decoder = new TextDecoder();
  for await (const chunk of chunks) {
    said.body += decoder.decode(chunk, { stream: true });
    if (asked.leave && said.body.includes("data: ")) break;
  }
}

async function byFetch() {
  const signal = AbortSignal.timeout(asked.patience_ms);
  const answer = await fetch(asked.url, { method: "POST", headers, body: asked.body, signal });
  said.status = answer.status;
  await read(answer.body);
}

async function byHttp() {
  const answer = await new Promise((resolve, reject) => {
    const request = http.request(asked.url, { method: "POST", headers }, resolve);
    request.on("error", reject);
    request.setTimeout(asked.patience_ms, () => request.destroy(Object.assign(new Error("timeout"), { code: "timeout" })));
    request.end(asked.body);
  });
  said.status = answer.statusCode;
  await read(answer);
}

try {
  await (asked.way === "fetch" ? byFetch() : byHttp());
} catch (error) {
  said.error = error.cause?.code ?? (error.code && typeof error.code === "string" ? error.code : error.name);
}
process.stdout.write(JSON.stringify(said), () => process.exit(0));
