// SPDX-License-Identifier: Apache-2.0
//
// The doctor's questions to driver and CUPTI, put by child processes, and a trial: one kernel under
// the recorder, which must turn up in its trace.
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>

#include "libgpuidle/base/config.h"
#include "libgpuidle/cupti/cupti_choice.h"
#include "libgpuidle/import/open_recording.h"
#include "tools/gpuidle/child_output.h"
#include "tools/gpuidle/doctor.h"

namespace gpuidle::cli {
namespace {

// Starting the driver takes a second per device on large machines.
constexpr int kTimeout_ms = 60'000;
constexpr int kLowestCapabilityOfCupti13 = 75;

struct CudaError {
  int code;
  const char* meaning;
  const char* remedy;
};
constexpr CudaError kInitErrors[] = {
    {100, "no device",
     "a container needs access to the GPUs (--gpus all); else see nvidia-smi, and "
     "unset CUDA_VISIBLE_DEVICES if it is empty"},
    {34, "the library is the toolkit's stub, not a driver",
     "take the folder 'stubs' out of LD_LIBRARY_PATH"},
    {803, "driver library and kernel driver have different versions",
     "reboot, or rebuild the container, after a driver update"},
    {802, "the system is not ready", "start the fabric manager (nvidia-fabricmanager)"},
    {804, "the compatibility driver does not support this device",
     "take the folder 'compat' out of LD_LIBRARY_PATH"},
    {999, "unknown", "see whether nvidia-smi works and dmesg names the driver"},
};

ChildOutput run_child(const char* name, Environment& environment) {
  return run_and_read("/proc/self/exe", {"gpuidle", "doctor", std::string("--child=") + name},
                      environment, kTimeout_ms);
}

void take_line(const std::string& key, const std::string& value, DriverFacts* facts) {
  if (key == "no_library") {
    facts->failure = "libcuda.so.1 was not found";
    facts->failure_remedy =
        "install the NVIDIA driver; in a container, start it with access to the GPUs (--gpus all)";
  } else if (key == "library") {
    facts->library = value;
  } else if (key == "cuda_version") {
    facts->cuda_version = std::atoi(value.c_str());
  } else if (key == "capability") {
    const int capability = std::atoi(value.c_str());
    int& lowest = facts->lowest_compute_capability;
    if (lowest == 0 || capability < lowest) lowest = capability;
  } else if (key == "device") {
    facts->devices.push_back(value);
  } else if (key == "cupti") {
    facts->cupti = value;
  } else if (key == "cupti_version") {
    facts->cupti_version = static_cast<std::uint32_t>(std::atoi(value.c_str()));
  } else if (key == "cuinit" && value != "0") {
    const int code = std::atoi(value.c_str());
    facts->failure = "cuInit failed with CUDA error " + value;
    for (const CudaError& error : kInitErrors) {
      if (error.code != code) continue;
      facts->failure += std::string(", ") + error.meaning;
      facts->failure_remedy = error.remedy;
    }
  }
}

// A folder for the trial's trace, gone when this object is.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* place = getenv("TMPDIR");
    std::string path =
        std::string(place == nullptr || *place == '\0' ? "/tmp" : place) + "/gpuidle-doctor-XXXXXX";
    if (mkdtemp(path.data()) != nullptr) path_ = path;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // what stays behind is one small folder
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class KernelCounter : public model::SliceVisitor {
 public:
  std::uint64_t kernels = 0;
  void on_slice(const model::Slice& slice) override {
    for (const model::DeviceActivity& activity : slice.activities) {
      kernels += activity.kind == model::ActivityKind::kernel ? 1 : 0;
    }
  }
};

Check judge_trace(const std::string& path) {
  base::Result<std::unique_ptr<model::Recording>> opened = import::open_recording(path);
  if (!opened.ok()) return {"trial", Finding::broken, opened.status().message(), ""};
  const std::unique_ptr<model::Recording> recording = opened.take();
  KernelCounter counter;
  const base::Status status = recording->visit(counter);
  const model::RecordingInfo& info = recording->info();
  const bool has_cupti =
      info.source == model::Source::cupti || info.source == model::Source::cupti_shared;
  if (!status.ok()) return {"trial", Finding::broken, status.message(), ""};
  if (has_cupti && counter.kernels == 1) {
    return {"trial", Finding::good, "one kernel was launched and is in the trace", ""};
  }
  if (has_cupti) {
    return {"trial", Finding::limited,
            "one kernel was launched, CUPTI accepted the recording, and " +
                std::to_string(counter.kernels) + " kernels are in the trace",
            "another profiler or a known defect of this CUPTI; try another CUDA toolkit's by "
            "GPUIDLE_CUPTI_LIBRARY"};
  }
  if (info.source == model::Source::interposition) {
    return {"trial", Finding::limited, "only host calls are recorded: " + info.source_reason,
            "without CUPTI the device's idle time is known only where it can be proven"};
  }
  return {"trial", Finding::broken, "nothing is recorded: " + info.source_reason, ""};
}

}  // namespace

DriverFacts ask_driver() {
  DriverFacts facts;
  Environment environment = Environment::of_this_process();
  const ChildOutput seen = run_child("driver", environment);
  std::istringstream lines(seen.out);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos)
      take_line(line.substr(0, space), line.substr(space + 1), &facts);
  }
  if (seen.has_timed_out) {
    facts.failure = "the driver did not start within 60 s";
    facts.failure_remedy = "see whether nvidia-smi works";
  } else if (seen.exit_code > 128) {
    facts.failure = "a process that only starts the driver and opens CUPTI is killed by signal " +
                    std::to_string(seen.exit_code - 128);
  }
  return facts;
}

Check check_driver(const DriverFacts& facts) {
  if (!facts.failure.empty()) {
    const std::string where = facts.library.empty() ? "" : facts.library + ": ";
    return {"driver", Finding::broken, where + facts.failure, facts.failure_remedy};
  }
  std::string found = facts.library;
  if (facts.cuda_version != 0) {
    found += ", of CUDA " + std::to_string(facts.cuda_version / 1000) + "." +
             std::to_string(facts.cuda_version % 1000 / 10);
  }
  return {"driver", Finding::good, found + ", starts", ""};
}

Check check_devices(const DriverFacts& facts) {
  if (facts.devices.empty()) {
    return {"devices", facts.failure.empty() ? Finding::broken : Finding::note, "none",
            facts.failure.empty() ? "unset CUDA_VISIBLE_DEVICES, or see nvidia-smi" : ""};
  }
  std::string found;
  for (std::size_t i = 0; i < facts.devices.size(); ++i) {
    found += (i == 0 ? "" : "; ") + std::to_string(i) + ": " + facts.devices[i];
  }
  return {"devices", Finding::good, found, ""};
}

Check check_cupti(const DriverFacts& facts) {
  if (facts.cupti.empty()) {
    return {"cupti", Finding::limited, "no libcupti was found",
            "install it (CUDA toolkit, or the package nvidia-cuda-cupti of the driver's CUDA "
            "version), or set GPUIDLE_CUPTI_LIBRARY; programs that bring their own use that"};
  }
  if (facts.cupti_version == 0) {
    return {"cupti", Finding::note, facts.cupti + ", which cannot be asked without a driver", ""};
  }
  const std::string text =
      facts.cupti + ", CUPTI " + cupti::cupti_version_text(facts.cupti_version);
  const std::string why_not = cupti::why_not_cupti(facts.cupti_version, facts.cuda_version / 1000);
  if (!why_not.empty()) return {"cupti", Finding::limited, text + ", is not used: " + why_not, ""};
  if (cupti::cupti_major(facts.cupti_version) >= 13 && facts.lowest_compute_capability != 0 &&
      facts.lowest_compute_capability < kLowestCapabilityOfCupti13) {
    return {"cupti", Finding::limited, text + ", does not record devices below capability 7.5",
            "use the CUPTI of CUDA 12 by GPUIDLE_CUPTI_LIBRARY"};
  }
  return {"cupti", Finding::good, text + " (programs that bring their own use that)", ""};
}

Check check_trial(const DriverFacts& facts) {
  if (!facts.failure.empty() || facts.devices.empty()) {
    return {"trial", Finding::note, "not made: there is no device to launch on", ""};
  }
  std::vector<std::string> warnings;
  const base::Config config = base::Config::from_environment(&warnings);
  const base::Result<std::string> library = find_recorder(config.library);
  const TemporaryFolder folder;
  if (!library.ok() || folder.path().empty()) {
    return {"trial", Finding::broken,
            library.ok() ? "not made: no folder for temporary files" : "not made: no recorder", ""};
  }
  Environment environment = Environment::of_this_process();
  const char* others = environment.find("LD_PRELOAD");
  environment.set("LD_PRELOAD", others == nullptr || *others == '\0'
                                    ? library.value()
                                    : library.value() + ":" + others);
  const std::string trace = folder.path() + "/trial.gpuidle";
  environment.set("GPUIDLE_OUTPUT", trace);
  environment.set("GPUIDLE_START", "auto");
  environment.set("GPUIDLE_LOG_FILE", folder.path() + "/log");
  const ChildOutput seen = run_child("launch", environment);
  if (seen.has_timed_out) {
    return {"trial", Finding::broken, "a program with one kernel did not end within 60 s", ""};
  }
  if (seen.exit_code != 0) {
    const std::size_t at = seen.out.find("failed ");
    return {"trial", Finding::broken,
            at == std::string::npos
                ? "a program with one kernel ended with " + std::to_string(seen.exit_code)
                : seen.out.substr(at + 7, seen.out.find('\n', at) - at - 7),
            ""};
  }
  if (access(trace.c_str(), R_OK) != 0) {
    const std::string said =
        read_line(folder.path() + "/log").value_or("the recorder said nothing");
    return {"trial", Finding::broken, "a kernel was launched and no trace was written: " + said,
            ""};
  }
  return judge_trace(trace);
}

}  // namespace gpuidle::cli
