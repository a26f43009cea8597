// An HTTP/1.1 answer taken apart as it arrives: status, body by Content-Length or in chunks, its end.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>

#include "common.hpp"

class Answer {
 public:
  int status = 0;
  bool done = false;
  bool broken = false;  // not HTTP as we know it, or with neither length nor chunks

  // Takes `bytes`; each piece of body, without chunk framing, goes to `on_body(std::string_view)`.
  template <typename OnBody>
  void feed(std::string_view bytes, OnBody&& on_body) {
    while (!bytes.empty() && !done && !broken) {
      switch (part_) {
        case Part::head: bytes.remove_prefix(take_head(bytes)); break;
        case Part::size: bytes.remove_prefix(take_size(bytes)); break;
        case Part::trailer: bytes.remove_prefix(take_trailer(bytes)); break;
        case Part::body: {
          const size_t take = std::min<size_t>(bytes.size(), left_);
          on_body(bytes.substr(0, take));
          bytes.remove_prefix(take);
          left_ -= take;
          if (left_ == 0) after_body();
        }
      }
    }
  }

 private:
  enum class Part { head, size, body, trailer };
  Part part_ = Part::head;
  bool chunked_ = false;
  long left_ = 0;
  std::string kept_;  // the head, a size line or a trailer line, as far as it came

  size_t take_head(std::string_view bytes) {
    const size_t had = kept_.size();
    kept_ += bytes;
    const size_t end = kept_.find("\r\n\r\n");
    if (end == std::string::npos) return bytes.size();
    if (kept_.size() < 12 || kept_.compare(0, 9, "HTTP/1.1 ")) broken = true;
    std::from_chars(kept_.data() + 9, kept_.data() + 12, status);
    const std::string head = kept_.substr(0, end + 2);
    kept_.clear();
    left_ = content_length(head);
    chunked_ = strcasestr(head.c_str(), "\r\ntransfer-encoding: chunked\r\n") != nullptr;
    if (chunked_) part_ = Part::size;
    else if (left_ > 0) part_ = Part::body;
    else if (left_ == 0) done = true;
    else broken = true;
    return end + 4 - had;
  }

  // A line of `bytes` without its end; false while it is not whole. `taken`: how many bytes were used.
  bool take_line(std::string_view bytes, std::string& line, size_t& taken) {
    const size_t end = bytes.find('\n');
    taken = end == bytes.npos ? bytes.size() : end + 1;
    kept_ += bytes.substr(0, taken);
    if (end == bytes.npos) return false;
    line.swap(kept_);
    kept_.clear();
    while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
    return true;
  }

  size_t take_size(std::string_view bytes) {
    std::string line;
    size_t taken;
    // The end of the chunk before is an empty line here.
    if (!take_line(bytes, line, taken) || line.empty()) return taken;
    left_ = -1;
    std::from_chars(line.data(), line.data() + line.size(), left_, 16);
    if (left_ < 0) broken = true;
    part_ = left_ == 0 ? Part::trailer : Part::body;
    return taken;
  }

  size_t take_trailer(std::string_view bytes) {
    std::string line;
    size_t taken;
    if (take_line(bytes, line, taken) && line.empty()) done = true;
    return taken;
  }

  void after_body() {
    if (chunked_) part_ = Part::size;
    else done = true;
  }
};
