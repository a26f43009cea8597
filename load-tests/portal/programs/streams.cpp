// Many open streams at once, each chunk measured: how long after it was due did it arrive?
//
//   streams REQUEST_FILE OUT STREAMS SPREAD_S MEASURED_S PORT [PORT …]
//
// Opens STREAMS connections, the ports in turn, evenly over SPREAD_S; each posts the request, whose stream must last
// longer than all this. Half a second after the last has begun, MEASURED_S seconds are measured. Writes to OUT one
// float32 for each chunk due in that time and seen up to one second after it: its delay in milliseconds. Prints one JSON
// line; `lost`: chunks out of order, which must be none.
// Exits 1 if a stream is refused or breaks.

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "answer.hpp"

namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr double kPatienceS = 40;  // after the last should have begun

struct Stream {
  explicit Stream(int of) : fd(of) {}
  int fd;
  bool asked = false;
  Answer answer;
  std::string line;
  long next = 0;
};

struct Window {
  uint64_t from_ns = ~0ull, to_ns = ~0ull;
};

std::vector<float> delays_ms;
long lost = 0;
size_t begun = 0;

// An event of the null backend: `data: {"due_ns":N,"seq":N,…`
void on_line(Stream& s, const Window& window, uint64_t now) {
  constexpr std::string_view intro = "data: {\"due_ns\":", then = ",\"seq\":";
  if (s.line.compare(0, intro.size(), intro)) return;
  uint64_t due = 0;
  long seq = -1;
  const char* end = s.line.data() + s.line.size();
  const char* at = std::from_chars(s.line.data() + intro.size(), end, due).ptr;
  if (std::string_view(at, end - at).starts_with(then)) std::from_chars(at + then.size(), end, seq);
  if (seq != s.next) ++lost;
  if (seq == 0) ++begun;
  s.next = seq + 1;
  if (due >= window.from_ns && due < window.to_ns) delays_ms.push_back((now - due) / 1e6f);
}

void on_body(Stream& s, const Window& window, uint64_t now, std::string_view piece) {
  for (size_t end; (end = piece.find('\n')) != piece.npos; piece.remove_prefix(end + 1)) {
    s.line += piece.substr(0, end);
    on_line(s, window, now);
    s.line.clear();
  }
  s.line += piece;
}

void on_readable(Stream& s, const Window& window) {
  static char buffer[64 * 1024];
  const ssize_t got = recv(s.fd, buffer, sizeof buffer, 0);
  if (got < 0 && errno == EAGAIN) return;
  const uint64_t now = now_ns();
  if (got > 0) {
    s.answer.feed({buffer, static_cast<size_t>(got)}, [&](std::string_view piece) { on_body(s, window, now, piece); });
  }
  if (got > 0 && !s.answer.done && !s.answer.broken && (!s.answer.status || s.answer.status == 200)) return;
  fprintf(stderr, "a stream ended after %ld chunks, answered %d\n", s.next, s.answer.status);
  exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) die("usage: streams REQUEST_FILE OUT STREAMS SPREAD_S MEASURED_S PORT …");
  std::ifstream file(argv[1], std::ios::binary);
  const std::string request{std::istreambuf_iterator<char>(file), {}};
  const size_t wanted = atoi(argv[3]);
  const double spread_s = atof(argv[4]), measured_s = atof(argv[5]);
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  std::vector<std::unique_ptr<Stream>> streams;
  Window window;
  const uint64_t start = now_ns(), give_up = start + static_cast<uint64_t>((spread_s + kPatienceS) * kSecond);
  epoll_event events[512];
  while (now_ns() < window.to_ns || now_ns() - window.to_ns < kSecond) {
    while (streams.size() < wanted && now_ns() - start >= streams.size() * spread_s / wanted * kSecond) {
      const int fd = connect_to(atoi(argv[6 + streams.size() % (argc - 6)]), SOCK_NONBLOCK);
      streams.push_back(std::make_unique<Stream>(fd));
      epoll_event event{.events = EPOLLOUT, .data = {.ptr = streams.back().get()}};
      epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
    }
    const int count = epoll_wait(epoll, events, 512, 1);
    for (int n = 0; n < count; ++n) {
      Stream& s = *static_cast<Stream*>(events[n].data.ptr);
      if (!s.asked) {
        s.asked = true;
        if (send(s.fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) die("send");
        epoll_event event{.events = EPOLLIN, .data = {.ptr = &s}};
        epoll_ctl(epoll, EPOLL_CTL_MOD, s.fd, &event);
      } else {
        on_readable(s, window);
      }
    }
    if (begun == wanted && window.from_ns == ~0ull) {
      window.from_ns = now_ns() + kSecond / 2;
      window.to_ns = window.from_ns + static_cast<uint64_t>(measured_s * kSecond);
    } else if (begun < wanted && now_ns() > give_up) {
      fprintf(stderr, "only %zu of %zu streams began\n", begun, wanted);
      return 1;
    }
  }
  std::ofstream(argv[2], std::ios::binary)
      .write(reinterpret_cast<const char*>(delays_ms.data()), delays_ms.size() * sizeof(float));
  printf("{\"streams\":%zu,\"chunks\":%zu,\"lost\":%ld}\n", begun, delays_ms.size(), lost);
}
