// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "libgpuidle/base/config.h"
#include "tools/gpuidle/child_output.h"
#include "tools/gpuidle/doctor.h"

namespace gpuidle::cli {
namespace {

constexpr int kPreloadTimeout_ms = 10'000;
constexpr std::uint64_t kLittleRoom_MiB = 256;
constexpr int kCapSysPtrace = 19;

base::Config config_of_environment() {
  std::vector<std::string> warnings;
  return base::Config::from_environment(&warnings);
}

// The value of "key: value" or "key<tab>value" lines in /proc.
std::string field_of(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.compare(0, key.size() + 1, key + ":") != 0) continue;
    const std::size_t begin = line.find_first_not_of(" \t", key.size() + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

bool has_capability(int number) {
  const std::string mask = field_of("/proc/self/status", "CapEff");
  return (std::strtoull(mask.c_str(), nullptr, 16) >> number & 1) != 0;
}

bool can_wipe_pages_on_fork() {
  const auto page_bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page =
      mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool can = madvise(page, page_bytes, MADV_WIPEONFORK) == 0;
  munmap(page, page_bytes);
  return can;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::optional<std::string> read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

Check check_system() {
  Check check{"system", Finding::good, "", ""};
  utsname names{};
  if (uname(&names) == 0) {
    check.found = std::string(names.sysname) + " " + names.release + ", " + names.machine;
  }
  if (!can_wipe_pages_on_fork()) {
    check.finding = Finding::broken;
    check.found +=
        "; the kernel cannot wipe a page on fork, so forked children could not be told "
        "from their parents";
    check.remedy = "use Linux 4.14 or newer";
  }
  return check;
}

Check check_recorder() {
  Check check{"recorder", Finding::good, "", ""};
  base::Result<std::string> library = find_recorder(config_of_environment().library);
  if (!library.ok()) {
    return {"recorder", Finding::broken, library.status().message(),
            "install libgpuidle.so beside the command, or set GPUIDLE_LIBRARY"};
  }
  check.found = library.value();
  Environment environment = Environment::of_this_process();
  environment.set("LD_PRELOAD", library.value());
  const ChildOutput seen = run_and_read("/bin/true", {"true"}, environment, kPreloadTimeout_ms);
  if (seen.has_timed_out || seen.exit_code != 0 || !seen.err.empty()) {
    check.finding = Finding::broken;
    check.found += ": preloaded into /bin/true, " +
                   (seen.has_timed_out ? "it did not end within 10 s"
                    : seen.err.empty() ? "it ended with " + std::to_string(seen.exit_code)
                                       : "it said '" + first_line(seen.err) + "'");
    check.remedy = "the library must be built for this machine's architecture and C library";
  } else {
    check.found += ", can be preloaded";
  }
  return check;
}

Check check_output() {
  Check check{"output", Finding::good, "", ""};
  const std::string pattern = config_of_environment().output;
  const std::size_t slash = pattern.rfind('/');
  const std::string folder_pattern =
      slash == std::string::npos ? "." : pattern.substr(0, slash + 1);
  const std::string folder =
      base::expand_output_pattern(folder_pattern, base::OutputFields::of_this_process());
  check.found = "traces go to " + (slash == std::string::npos ? "the current folder, " : folder);
  if (slash == std::string::npos) check.found += "wherever a program is started";
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    check.finding = Finding::broken;
    check.found += ", which cannot be written: " + std::string(std::strerror(errno));
    check.remedy = "choose another place by GPUIDLE_OUTPUT or gpuidle run -o";
    return check;
  }
  struct statvfs room {};
  if (statvfs(folder.c_str(), &room) != 0) return check;
  const std::uint64_t free_MiB = std::uint64_t{room.f_bavail} * room.f_frsize >> 20;
  check.found += "; " + std::to_string(free_MiB) + " MiB are free here";
  if (free_MiB < kLittleRoom_MiB) {
    check.finding = Finding::limited;
    check.remedy = "a trace takes up to 12 bytes per device activity; make room";
  }
  return check;
}

Check check_device_files() {
  Check check{"device_files", Finding::good, "", ""};
  const std::optional<std::string> version = read_line("/proc/driver/nvidia/version");
  if (access("/dev/nvidiactl", F_OK) != 0) {
    check.finding = Finding::note;
    check.found = version ? "no /dev/nvidiactl, although the kernel driver is loaded"
                          : "no /dev/nvidiactl: the kernel driver is not loaded, or not visible";
    check.remedy = "in a container, start it with access to the GPUs (--gpus all)";
    return check;
  }
  check.found = version ? first_line(*version) : "/dev/nvidiactl is there";
  std::string closed;
  for (int i = -1; i < 16; ++i) {
    const std::string path = i < 0 ? "/dev/nvidiactl" : "/dev/nvidia" + std::to_string(i);
    if (access(path.c_str(), F_OK) == 0 && access(path.c_str(), R_OK | W_OK) != 0) {
      closed += (closed.empty() ? "" : ", ") + path;
    }
  }
  if (!closed.empty()) {
    check.finding = Finding::broken;
    check.found += "; not open to this user: " + closed;
    check.remedy = "join the group that owns these files";
  }
  return check;
}

Check check_permissions() {
  Check check{"permissions", Finding::good, "", ""};
  std::string setting = field_of("/proc/driver/nvidia/params", "RmProfilingAdminOnly");
  check.found = "nothing special is needed: only activity is recorded, no hardware counters";
  if (setting == "1") {
    check.found += " (NVreg_RestrictProfilingToAdminUsers=1 guards the counters alone)";
  }
  if (access("/etc/nv_tegra_release", F_OK) == 0 && geteuid() != 0) {
    check = {"permissions", Finding::limited, "on Tegra, CUPTI records for root alone",
             "run as root"};
  }
  return check;
}

Check check_ptrace() {
  Check check{"ptrace", Finding::good, "", ""};
  const std::optional<std::string> text = read_line("/proc/sys/kernel/yama/ptrace_scope");
  const int scope = text ? std::atoi(text->c_str()) : 0;
  const bool may = has_capability(kCapSysPtrace);
  if (scope == 0) {
    check.found = "programs of this user that were started without gpuidle can be attached to";
  } else if (may && scope < 3) {
    check.found = "programs can be attached to, by this user's right to trace (ptrace_scope is " +
                  std::to_string(scope) + ")";
  } else {
    check.finding = Finding::note;
    check.found =
        "programs that were started without gpuidle cannot be attached to: "
        "kernel.yama.ptrace_scope is " +
        std::to_string(scope);
    check.remedy = "start them by gpuidle run";
    if (scope < 3) check.remedy += ", or attach as root or with CAP_SYS_PTRACE";
  }
  const std::string seccomp = field_of("/proc/self/status", "Seccomp");
  if (seccomp == "2" && check.finding == Finding::good) {
    check.found += "; a system call filter is on, which may forbid it all the same";
  }
  return check;
}

Check check_container() {
  Check check{"container", Finding::good, "no container is apparent", ""};
  const char* kind = nullptr;
  if (access("/.dockerenv", F_OK) == 0) kind = "Docker";
  if (access("/run/.containerenv", F_OK) == 0) kind = "Podman";
  if (std::getenv("APPTAINER_CONTAINER") != nullptr) kind = "Apptainer";
  if (std::getenv("SINGULARITY_CONTAINER") != nullptr) kind = "Singularity";
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) kind = "Kubernetes";
  if (kind != nullptr) {
    check.finding = Finding::note;
    check.found = std::string("in a container (") + kind +
                  "): both command and library must be inside it, traces are written inside it";
  }
  if (access("/proc/self/maps", R_OK) != 0) {
    check.finding = Finding::limited;
    check.found += "; /proc is not there, so that traces lack the program's name and modules";
    check.remedy = "mount /proc";
  }
  return check;
}

Check check_other_tools() {
  Check check{"other_tools", Finding::good, "none in the environment", ""};
  std::string seen;
  const auto see = [&](const std::string& what) { seen += (seen.empty() ? "" : "; ") + what; };
  const char* injection = std::getenv("CUDA_INJECTION64_PATH");
  if (injection != nullptr && std::strstr(injection, "libgpuidle.so") == nullptr) {
    see(std::string("CUDA_INJECTION64_PATH=") + injection + " has CUPTI before us");
    check.finding = Finding::limited;
    check.remedy = "unset it, else only host calls are recorded where CUPTI cannot be shared";
  }
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload != nullptr && *preload != '\0') {
    see(std::string("LD_PRELOAD=") + preload + " stays in the chain");
  }
  for (const char* name : {"NVTX_INJECTION64_PATH", "LD_AUDIT", "KINETO_USE_DAEMON",
                           "CUPTI_ENABLE_HW_TRACE", "NSYS_PROFILING_SESSION_ID"}) {
    if (const char* value = std::getenv(name)) see(std::string(name) + "=" + value);
  }
  if (seen.empty()) return check;
  check.found = seen;
  if (check.finding == Finding::good) check.finding = Finding::note;
  return check;
}

}  // namespace gpuidle::cli
