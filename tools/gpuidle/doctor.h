// SPDX-License-Identifier: Apache-2.0
//
// What `gpuidle doctor` looks at. Each check answers one question about this machine and says what
// would mend it; cmd_doctor.cpp prints them and draws the conclusion.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuidle::cli {

enum class Finding {
  good,
  note,     ///< nothing is wrong, but worth knowing
  limited,  ///< recordings will lack something
  broken,   ///< nothing can be recorded
};

struct Check {
  const char* name;  ///< short, stable: the key in --json
  Finding finding = Finding::good;
  std::string found;
  std::string remedy;  ///< "" = there is nothing to do
};

// doctor_machine.cpp: what can be read without touching CUDA.
Check check_system();
Check check_recorder();      ///< the library next to this command, and a preload of it
Check check_output();        ///< where traces would go
Check check_device_files();  ///< the kernel driver's device files
Check check_permissions();
Check check_ptrace();
Check check_container();
Check check_other_tools();  ///< in the environment that programs would inherit

// doctor_python.cpp
Check check_python();

/// What a child process found out from the CUDA driver. What is not known is empty.
struct DriverFacts {
  std::string library;  ///< path of libcuda
  std::string failure;  ///< why the driver does not work; "" = it does
  std::string failure_remedy;
  int cuda_version = 0;               ///< 12040 = CUDA 12.4; 0 = not known
  std::vector<std::string> devices;   ///< name, compute capability, memory
  int lowest_compute_capability = 0;  ///< 75 = 7.5; 0 = not known
  std::string cupti;                  ///< path; "" = none was found
  std::uint32_t cupti_version = 0;
};

// doctor_driver.cpp: questions that are asked in a child process, since their answer may crash it.
DriverFacts ask_driver();
Check check_driver(const DriverFacts& facts);
Check check_devices(const DriverFacts& facts);
Check check_cupti(const DriverFacts& facts);
/// Launches one kernel under the recorder and looks for it in the trace.
Check check_trial(const DriverFacts& facts);

/// Body of those children, `gpuidle doctor --child=NAME`; prints "key value" lines.
int doctor_child(const std::string& name);

/// First line of a file without its end; nullopt = it cannot be read.
std::optional<std::string> read_line(const std::string& path);

}  // namespace gpuidle::cli
