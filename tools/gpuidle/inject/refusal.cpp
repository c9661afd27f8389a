// SPDX-License-Identifier: Apache-2.0
#include "tools/gpuidle/inject/refusal.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace gpuidle::cli {
namespace {

using base::Status;
using base::StatusCode;

constexpr char kWithoutPtrace[] =
    "; programs started by 'gpuidle run', or with LD_PRELOAD=libgpuidle.so and "
    "GPUIDLE_START=attach, can be attached to without it";

// The user id of each process is told to everyone; the rights over it are not.
Status refuse_other_user(const ProcessFacts& process) {
  if (process.is_readable) return {};
  const std::string label = process.label();
  if (process.user != geteuid()) {
    return {StatusCode::permission_denied,
            label + " belongs to user " + std::to_string(process.user) + ", not to " +
                std::to_string(geteuid()) + "; run this command as that user or as root"};
  }
  if (process.open_error == ENOENT || process.open_error == ESRCH) {
    return {StatusCode::not_found, label + " has ended"};
  }
  return {StatusCode::permission_denied,
          label + " may not be looked into (" + std::strerror(process.open_error) +
              "): it was started with other rights (setuid, capabilities) or has made itself "
              "undumpable; run this command as root"};
}

int yama_scope() {
  std::ifstream file("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  return file >> scope ? scope : 0;
}

}  // namespace

Status refuse_any(const ProcessFacts& process) {
  const std::string label = process.label();
  switch (process.state) {
    case 'Z':
    case 'X':
      return {StatusCode::not_found,
              label + " has ended; its parent has not taken note yet (a zombie)"};
    case 'T':
      return {StatusCode::unavailable,
              label + " is stopped; continue it first: kill -CONT " + std::to_string(process.pid)};
    default:
      return refuse_other_user(process);
  }
}

Status refuse_injection(const ProcessFacts& process) {
  const std::string label = process.label();
  if (Status status = refuse_any(process); !status.ok()) return status;
  if (process.tracer != 0) {
    return {StatusCode::unavailable, label + " is traced by process " +
                                         std::to_string(process.tracer) +
                                         " (a debugger or strace); end that first"};
  }
  if (!process.is_64_bit) {
    return {StatusCode::wrong_format,
            label + " is a 32-bit program, the recorder is 64-bit: it cannot be attached to"};
  }
  if (process.is_static) {
    return {StatusCode::wrong_format,
            label + " is statically linked, so that no library can be put into it"};
  }
  if (process.has_musl) {
    return {StatusCode::wrong_format,
            label + " runs on musl; the recorder needs the GNU C library, as CUDA does"};
  }
  if (process.seccomp == 1) {
    return {StatusCode::wrong_format,
            label +
                " is in strict seccomp mode: the kernel would kill it at the first call that "
                "attaching needs"};
  }
  if (!process.has_cuda) {
    return {StatusCode::unavailable,
            label + " has not loaded libcuda.so: it does not use CUDA, or not yet"};
  }
  return {};
}

Status explain_seize_failure(const ProcessFacts& process, int reason) {
  const std::string label = process.label();
  if (reason == ESRCH) return {StatusCode::not_found, label + " has ended"};
  if (reason != EPERM) {
    return {StatusCode::unavailable, "cannot trace " + label + ": " + std::strerror(reason)};
  }
  std::string why = "the kernel forbids tracing " + label;
  const int scope = yama_scope();
  if (scope == 1) {
    why +=
        ": kernel.yama.ptrace_scope is 1 (descendants only); run this command as root, or "
        "'sysctl kernel.yama.ptrace_scope=0'";
  } else if (scope == 2) {
    why += ": kernel.yama.ptrace_scope is 2 (administrators only); run this command as root";
  } else if (scope >= 3) {
    why += ": kernel.yama.ptrace_scope is 3 (nobody, until the next boot)";
  } else {
    why += "; run this command as root, in a container with --cap-add=SYS_PTRACE";
  }
  return {StatusCode::permission_denied, why + kWithoutPtrace};
}

}  // namespace gpuidle::cli
