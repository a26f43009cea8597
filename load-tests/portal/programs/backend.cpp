// The null backend: for each model a port, and behind it an engine that answers at once, or streams by the clock.
//
//   backend MODEL [MODEL …]      prints one line `ports P0 P1 …`, then serves until it is ended
//
// One thread, one epoll. A request must have Content-Length and must name the model of the port it comes to, else it is
// answered 421: so each request of a load is checked for its route, not only a few. A body with `"stream":true` gets
// `"bench_chunks"` server-sent events, one each `"bench_period_us"`. An event carries the instant at which it was *due*
// (CLOCK_MONOTONIC, ns), not at which it could be sent: a proxy that pushes back is not excused by it.

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include "common.hpp"

namespace {

constexpr size_t kReadBytes = 64 * 1024;
constexpr int kMaxEvents = 512;

struct Model {
  std::string named;   // what a body that means this model contains
  std::vector<std::string> answers;  // head and body of the plain ones, given in turn
  size_t turn = 0;
};

struct Connection {
  int fd = -1;
  Model* model = nullptr;
  std::string in;       // what was read and not yet understood
  std::string out;      // what the kernel did not take yet
  long next = 0;        // the stream's next chunk
  long chunks = 0;      // how many it has; 0: no stream is on
  uint64_t begun_ns = 0;
  uint64_t period_ns = 0;
  bool closed = false;
};

using Held = std::shared_ptr<Connection>;

struct Due {
  uint64_t at_ns;
  Held connection;
  bool operator>(const Due& other) const { return at_ns > other.at_ns; }
};

std::priority_queue<Due, std::vector<Due>, std::greater<>> timers;
std::vector<Held> by_fd;

std::string with_head(const char* status, const char* type, const std::string& body) {
  return std::string("HTTP/1.1 ") + status + "\r\ncontent-type: " + type +
         "\r\ncontent-length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// About what a short answer of a real engine weighs. Its length differs from turn to turn, as a real one's does.
std::string answer_of(const std::string& name, size_t content_bytes) {
  const std::string body =
      R"({"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1767225600,"model":")" + name +
      R"(","choices":[{"index":0,"message":{"role":"assistant","content":")" + std::string(content_bytes, 'x') +
      R"("},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":900,"total_tokens":964,"completion_tokens":64}})";
  return with_head("200 OK", "application/json", body);
}

Model model_of(const std::string& name) {
  Model model{.named = R"("model":")" + name + "\"", .answers = {}};
  for (size_t n = 0; n < 8; ++n) model.answers.push_back(answer_of(name, 200 + 16 * n));
  return model;
}

// One chunk of HTTP with one event of about 200 bytes, as vLLM sends them; the last one with the end of the body.
void append_chunk(Connection& c, uint64_t due_ns) {
  char event[320];
  const int event_bytes = snprintf(
      event, sizeof event,
      "data: {\"due_ns\":%llu,\"seq\":%ld,\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\","
      "\"created\":1767225600,\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"finish_reason\":null}]}\n\n",
      static_cast<unsigned long long>(due_ns), c.next);
  char size[16];
  c.out.append(size, snprintf(size, sizeof size, "%x\r\n", event_bytes)).append(event, event_bytes).append("\r\n");
  if (++c.next == c.chunks) {
    c.out += "0\r\n\r\n";
    c.chunks = 0;
  }
}

void flush(Connection& c) {
  while (!c.out.empty()) {
    const ssize_t sent = send(c.fd, c.out.data(), c.out.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN) c.closed = true;
      return;
    }
    c.out.erase(0, sent);
  }
}

// Sends what is due; while the kernel takes no more nothing is generated, so a slow reader costs no memory.
void stream(const Held& c) {
  const uint64_t now = now_ns();
  while (c->chunks && c->out.empty() && !c->closed) {
    const uint64_t due = c->begun_ns + c->next * c->period_ns;
    if (due > now) {
      timers.push({due, c});
      return;
    }
    append_chunk(*c, due);
    flush(*c);
  }
}

long number(std::string_view body, std::string_view key) {
  const size_t at = body.find(key);
  long value = 0;
  if (at != body.npos) std::from_chars(body.data() + at + key.size(), body.data() + body.size(), value);
  return value;
}

void answer(const Held& c, std::string_view body) {
  if (body.find(c->model->named) == body.npos) {
    c->out += with_head("421 Misdirected Request", "text/plain", "this body names another model\n");
  } else if (body.find(R"("stream":true)") == body.npos) {
    c->out += c->model->answers[c->model->turn++ % c->model->answers.size()];
  } else {
    c->out += "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    c->next = 0;
    c->chunks = number(body, R"("bench_chunks":)");
    c->period_ns = number(body, R"("bench_period_us":)") * 1000;
    c->begun_ns = now_ns();
  }
  flush(*c);
  stream(c);
}

// Answers each whole request of `in`; false: this is no request that we take.
bool understand(const Held& c) {
  while (!c->chunks && !c->closed) {
    const size_t head = c->in.find("\r\n\r\n");
    if (head == std::string::npos) return c->in.size() < kReadBytes;
    const long length = content_length(std::string_view(c->in).substr(0, head));
    if (length < 0) {
      c->out += with_head("411 Length Required", "text/plain", "the null backend wants Content-Length\n");
      flush(*c);
      return false;
    }
    const size_t whole = head + 4 + length;
    if (c->in.size() < whole) return true;
    answer(c, std::string_view(c->in).substr(head + 4, length));
    c->in.erase(0, whole);
  }
  return true;
}

void on_readable(const Held& c) {
  static char buffer[kReadBytes];
  const ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
  if (got > 0) {
    c->in.append(buffer, got);
    if (!understand(c)) c->closed = true;
  } else if (got == 0 || errno != EAGAIN) {
    c->closed = true;
  }
}

void accept_all(int epoll, int listener, Model& model) {
  for (;;) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return;
    set_no_delay(fd);
    if (by_fd.size() <= static_cast<size_t>(fd)) by_fd.resize(fd + 1);
    by_fd[fd] = std::make_shared<Connection>();
    by_fd[fd]->fd = fd;
    by_fd[fd]->model = &model;
    epoll_event event{.events = EPOLLIN | EPOLLOUT | EPOLLET | EPOLLRDHUP, .data = {.fd = fd}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  }
}

void on_event(const epoll_event& event) {
  const Held c = by_fd[event.data.fd];
  if (!c) return;
  // With bytes left over the stream has no timer pending, else it has: it must not get a second one.
  if (event.events & EPOLLOUT && !c->out.empty()) {
    flush(*c);
    stream(c);
  }
  // Edge-triggered: one read takes all, as no request is larger than the buffer; the peer sends on after its answer.
  if (event.events & EPOLLIN) on_readable(c);
  if (c->closed || event.events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) {
    c->closed = true;
    close(c->fd);
    by_fd[c->fd] = nullptr;
  }
}

// Until the next chunk is due; null without one. (epoll_wait knows milliseconds only, epoll_pwait2 nanoseconds.)
const timespec* until_due() {
  static timespec span;
  if (timers.empty()) return nullptr;
  const uint64_t now = now_ns(), at = timers.top().at_ns, left = at > now ? at - now : 0;
  span = {.tv_sec = static_cast<time_t>(left / 1'000'000'000), .tv_nsec = static_cast<long>(left % 1'000'000'000)};
  return &span;
}

void run_timers() {
  const uint64_t now = now_ns();
  while (!timers.empty() && timers.top().at_ns <= now) {
    const Held c = timers.top().connection;
    timers.pop();
    if (!c->closed) stream(c);
    // A stream that ended may have the next request behind it.
    if (!c->closed && !c->chunks && !c->in.empty() && !understand(c)) c->closed = true;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) die("usage: backend MODEL [MODEL …]");
  signal(SIGPIPE, SIG_IGN);
  std::vector<Model> models;
  for (int n = 1; n < argc; ++n) models.push_back(model_of(argv[n]));
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::vector<int> listeners;
  printf("ports");
  for (size_t n = 0; n < models.size(); ++n) {
    const auto [fd, port] = listen_on_loopback();
    listeners.push_back(fd);
    epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    printf(" %d", port);
  }
  printf("\n");
  fflush(stdout);
  epoll_event events[kMaxEvents];
  for (;;) {
    const int count = epoll_pwait2(epoll, events, kMaxEvents, until_due(), nullptr);
    if (count < 0 && errno != EINTR) die("epoll_pwait2");
    for (int n = 0; n < count; ++n) {
      const auto listener = std::find(listeners.begin(), listeners.end(), events[n].data.fd);
      if (listener != listeners.end()) {
        accept_all(epoll, *listener, models[listener - listeners.begin()]);
      } else {
        on_event(events[n]);
      }
    }
    run_timers();
  }
}
