// What the null backend and the two clients share: the clock, sockets on loopback, Content-Length.
#pragma once

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <strings.h>
#include <utility>

[[noreturn]] inline void die(const char* what) {
  perror(what);
  exit(1);
}

// Of CLOCK_MONOTONIC, which all processes of one machine share.
inline uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

inline void set_no_delay(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

inline sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// A listening socket and its port, which the kernel chose.
inline std::pair<int, int> listen_on_loopback() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), size) || listen(fd, 4096) ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size))
    die("listen");
  return {fd, ntohs(address.sin_port)};
}

// A connected socket; `flags` as SOCK_NONBLOCK take effect at once.
inline int connect_to(int port, int flags) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  const sockaddr_in address = loopback(port);
  if (fd < 0) die("socket");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) && errno != EINPROGRESS) die("connect");
  set_no_delay(fd);
  return fd;
}

// Of a message head, -1 without one.
inline long content_length(std::string_view head) {
  constexpr std::string_view name = "\r\ncontent-length:";
  for (size_t at = head.find('\r'); at != head.npos; at = head.find('\r', at + 1)) {
    if (head.size() - at <= name.size() || strncasecmp(head.data() + at, name.data(), name.size())) continue;
    at += name.size();
    while (at < head.size() && head[at] == ' ') ++at;
    long value = -1;
    std::from_chars(head.data() + at, head.data() + head.size(), value);
    return value;
  }
  return -1;
}
