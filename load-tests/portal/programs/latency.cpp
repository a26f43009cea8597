// How long one request takes, on one connection, one after the other.
//
//   latency PORT COUNT REQUEST_FILE [REQUEST_FILE …]
//
// Posts the requests in turn, COUNT in all after COUNT / 10 that are not counted, and prints one JSON line; times in
// microseconds, from before the send to after the last byte of the answer.

#include <fcntl.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <vector>

#include "answer.hpp"

namespace {

std::string content_of(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) die(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double once_us(int fd, const std::string& request) {
  static char buffer[64 * 1024];
  const uint64_t begun = now_ns();
  if (send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) die("send");
  Answer answer;
  std::string refusal;
  while (!answer.done) {
    const ssize_t got = recv(fd, buffer, sizeof buffer, 0);
    if (got <= 0) die("the answer broke off");
    answer.feed({buffer, static_cast<size_t>(got)}, [&](std::string_view piece) {
      if (answer.status != 200) refusal += piece;
    });
    if (answer.broken) die("the answer is not HTTP as we know it");
  }
  if (answer.status != 200) {
    fprintf(stderr, "answered %d: %s\n", answer.status, refusal.c_str());
    exit(1);
  }
  return (now_ns() - begun) / 1000.0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) die("usage: latency PORT COUNT REQUEST_FILE …");
  const int fd = connect_to(atoi(argv[1]), 0), count = atoi(argv[2]);
  std::vector<std::string> requests;
  for (int n = 3; n < argc; ++n) requests.push_back(content_of(argv[n]));
  for (int n = 0; n < count / 10; ++n) once_us(fd, requests[n % requests.size()]);
  std::vector<double> took;
  for (int n = 0; n < count; ++n) took.push_back(once_us(fd, requests[n % requests.size()]));
  std::sort(took.begin(), took.end());
  // Nearest rank: the smallest value that a share `q` of all do not exceed.
  const auto at = [&](double q) { return took[static_cast<size_t>(std::ceil(q * took.size())) - 1]; };
  printf("{\"requests\":%d,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n", count, at(0.5), at(0.99), took.back());
}
