-- wrk's part of the bench: post the requests of the given files in turn; at the end say what happened in one JSON line.
--
--   wrk … -s post.lua URL -- REQUEST_FILE …        each file holds one whole HTTP request
--
-- Requests are read once, so that wrk's own work for each is one table look-up. `response` is not defined on purpose: wrk
-- would build Lua tables of each answer. Wrong routes are seen all the same, as the null backend answers them with 421.

local requests, turn = {}, 0

function init(files)
  for n, path in ipairs(files) do
    local file = assert(io.open(path, "rb"))
    requests[n] = file:read("*a")
    file:close()
  end
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\n{"requests":%d,"duration_us":%d,"not_2xx":%d,"broken":%d,"timeouts":%d,"p50_us":%d,"p99_us":%d}\n',
    summary.requests, summary.duration, e.status, e.connect + e.read + e.write, e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
