// SPDX-License-Identifier: Apache-2.0
//
// The settings of a recording, read from the environment once. config.def is their only list; it
// feeds the recorder (Config), `gpuidle run` (its options) and the file's header (effective()).
// This is the only room that reads the environment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libgpuidle/base/log.h"
#include "libgpuidle/base/status.h"

namespace gpuidle::base {

enum class StartMode : std::uint8_t { automatic, manual, on_request };
enum class SourceLimit : std::uint8_t { automatic, cupti, interposition, off };
enum class DetailLevel : std::uint8_t { full };

/// The settings in force. A value: whoever reads it keeps it const.
struct Config {
#define GPUIDLE_SETTING(kind, type, member, name, initial, minimum, maximum, unit, choices, help) \
  type member{};
#include "libgpuidle/base/config.def"
#undef GPUIDLE_SETTING

  /// Settings from `environment` (NAME=value strings, ended by nullptr), defaults for the rest. A
  /// bad value or an unknown GPUIDLE_* name adds one line to `warnings` (without newline) and
  /// changes nothing; an empty value counts as not set.
  /// Context: control | tool. Allocates; never throws but for lack of memory.
  static Config from(const char* const* environment, std::vector<std::string>* warnings);
  /// The same for this process's environment.
  static Config from_environment(std::vector<std::string>* warnings);

  /// Every setting as GPUIDLE_NAME=value, in the order of the table.
  std::vector<std::string> effective() const;
};

enum class SettingKind : std::uint8_t { pattern, path, number, flag, choice };

/// One row of the table, for whoever shows or checks settings by name.
struct SettingRow {
  const char* variable;  ///< "GPUIDLE_RING_KIB"
  SettingKind kind;
  const char* default_value;  ///< "" = none
  std::uint32_t minimum;
  std::uint32_t maximum;
  const char* unit;     ///< "" = none
  const char* choices;  ///< "auto|manual"; "" unless a choice
  const char* help;

  std::string option() const;  ///< "--ring-kib"
};

const std::vector<SettingRow>& setting_rows();  ///< Context: tool.

/// Whether `value` may be given to a setting. Errors: invalid_argument, with what was expected.
Status check_setting(const SettingRow& row, const std::string& value);

/// What the fields of an output pattern stand for.
struct OutputFields {
  std::uint32_t pid = 0;
  std::string host;               ///< %h
  std::string program;            ///< %e, the name of the executable without its folder
  std::int64_t start_unix_s = 0;  ///< %t, shown as 20310224T235959 in UTC
  std::uint32_t counter = 0;      ///< %n

  static OutputFields of_this_process();
};

/// The path that a pattern gives. Without %n in the pattern, a counter above 0 goes as "-<counter>"
/// before the extension, so that raising it always leads to another name.
std::string expand_output_pattern(const std::string& pattern, const OutputFields& fields);

/// Glob expressions (glob(7)) that match every path the pattern can give; a known `host` narrows
/// them.
std::vector<std::string> output_globs(const std::string& pattern, const std::string& host);

}  // namespace gpuidle::base
