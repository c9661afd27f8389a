// SPDX-License-Identifier: Apache-2.0
//
// Errors as values. Recorder rooms must not throw inside a host program, and readers of untrusted
// files want one line that says what, where, expected and found; Status carries that line.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace gpuidle::base {

/// What class of failure a Status is; the command line maps each to its exit code.
enum class StatusCode {
  ok = 0,
  invalid_argument,
  not_found,
  permission_denied,
  unavailable,  ///< a library, device or permission that may be there another time
  io_error,
  truncated,     ///< the file ends before what it announces
  corrupt,       ///< the bytes contradict the format
  wrong_format,  ///< readable, but not a format that is known here
  unsupported_version,
  internal,
};

/// An outcome: ok, or a code with one line for the user (no trailing full stop, no newline).
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::ok; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::ok;
  std::string message_;
};

/// A value or the reason why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT: implicit by design
  Result(Status status) : state_(std::move(status)) {}  // NOLINT: `status` must not be ok

  bool ok() const { return std::holds_alternative<T>(state_); }
  const Status& status() const {
    static const Status kOk;
    return ok() ? kOk : std::get<Status>(state_);
  }
  T& value() { return std::get<T>(state_); }
  const T& value() const { return std::get<T>(state_); }
  T take() { return std::move(std::get<T>(state_)); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace gpuidle::base
