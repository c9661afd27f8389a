// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/base/config.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstring>
#include <ctime>

namespace gpuidle::base {
namespace {

constexpr char kPrefix[] = "GPUIDLE_";
constexpr std::size_t kPrefixLength = sizeof(kPrefix) - 1;

// Plain data on purpose: setting_rows() would otherwise leave a destructor behind in a host.
constexpr SettingRow kRows[] = {
#define GPUIDLE_SETTING(kind, type, member, name, initial, minimum, maximum, unit, choices, help) \
  {"GPUIDLE_" #name, SettingKind::kind, initial, minimum, maximum, unit, choices, help},
#include "libgpuidle/base/config.def"
#undef GPUIDLE_SETTING
};

std::string bad_value(const SettingRow& row, const std::string& value,
                      const std::string& expected) {
  return std::string(row.variable) + "='" + value + "' is not " + expected;
}

Status parse_number(const SettingRow& row, const std::string& value, std::uint32_t* out) {
  const Status bad(
      StatusCode::invalid_argument,
      bad_value(row, value,
                "a whole number of " + std::string(row.unit) + " from " +
                    std::to_string(row.minimum) + " to " + std::to_string(row.maximum)));
  // Ten digits hold the largest maximum and cannot overflow 64 bits.
  if (value.empty() || value.size() > 10) return bad;
  std::uint64_t number = 0;
  for (const char c : value) {
    if (c < '0' || c > '9') return bad;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (number < row.minimum || number > row.maximum) return bad;
  *out = static_cast<std::uint32_t>(number);
  return {};
}

Status parse_choice(const SettingRow& row, const std::string& value, std::size_t* out) {
  const std::string choices = row.choices;
  std::size_t begin = 0;
  for (std::size_t index = 0; begin <= choices.size(); ++index) {
    const std::size_t end = std::min(choices.find('|', begin), choices.size());
    if (choices.compare(begin, end - begin, value) == 0) {
      *out = index;
      return {};
    }
    begin = end + 1;
  }
  return {StatusCode::invalid_argument, bad_value(row, value, "one of " + choices)};
}

Status check_pattern(const SettingRow& row, const std::string& value) {
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '%') continue;
    ++i;
    if (i == value.size() || std::strchr("phetn%", value[i]) == nullptr) {
      return {StatusCode::invalid_argument,
              bad_value(row, value, "a pattern with fields %p %h %e %t %n and %% only")};
    }
  }
  if (value.empty() || value.back() == '/') {
    return {StatusCode::invalid_argument, bad_value(row, value, "the name of a file")};
  }
  return {};
}

Status assign(const SettingRow& row, const std::string& value, std::string* out) {
  if (row.kind == SettingKind::pattern) {
    Status status = check_pattern(row, value);
    if (!status.ok()) return status;
  }
  *out = value;
  return {};
}

Status assign(const SettingRow& row, const std::string& value, std::uint32_t* out) {
  return parse_number(row, value, out);
}

Status assign(const SettingRow& row, const std::string& value, bool* out) {
  if (value != "0" && value != "1") {
    return {StatusCode::invalid_argument, bad_value(row, value, "0 or 1")};
  }
  *out = value == "1";
  return {};
}

template <typename Choice>
Status assign(const SettingRow& row, const std::string& value, Choice* out) {
  std::size_t index = 0;
  Status status = parse_choice(row, value, &index);
  if (status.ok()) *out = static_cast<Choice>(index);
  return status;
}

Status assign_by_row(Config& config, std::size_t index, const std::string& value) {
  std::size_t row = 0;
#define GPUIDLE_SETTING(kind, type, member, name, initial, minimum, maximum, unit, choices, help) \
  if (row++ == index) return assign(kRows[index], value, &config.member);
#include "libgpuidle/base/config.def"
#undef GPUIDLE_SETTING
  return {StatusCode::internal, "no such setting"};
}

std::string text_of(const SettingRow&, const std::string& value) { return value; }
std::string text_of(const SettingRow&, std::uint32_t value) { return std::to_string(value); }
std::string text_of(const SettingRow&, bool value) { return value ? "1" : "0"; }
template <typename Choice>
std::string text_of(const SettingRow& row, Choice value) {
  const char* choice = row.choices;
  for (std::size_t i = 0; i < static_cast<std::size_t>(value); ++i) {
    choice = std::strchr(choice, '|') + 1;
  }
  return std::string(choice, std::strcspn(choice, "|"));
}

// Levenshtein distance; names are short, so one row of the table is enough.
std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({change, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string unknown_name(const std::string& name) {
  constexpr std::size_t kFarthest = 4;  // edits; beyond that a suggestion is a guess
  constexpr std::size_t kLongest = 64;  // bytes; no name of ours comes near
  std::size_t best = kFarthest + 1;
  const char* nearest = nullptr;
  if (name.size() <= kLongest) {
    for (const SettingRow& row : kRows) {
      const std::size_t distance = edit_distance(name, row.variable);
      if (distance < best) {
        best = distance;
        nearest = row.variable;
      }
    }
  }
  std::string text = "unknown variable " + name.substr(0, kLongest) + " is ignored";
  text += nearest != nullptr ? "; did you mean " + std::string(nearest) + "?"
                             : "; 'gpuidle run --help' lists the known ones";
  return text;
}

// A component of a file name: whatever would leave the folder or garble a terminal goes.
std::string as_file_name(std::string text) {
  for (char& c : text) {
    if (c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '_';
  }
  return text.empty() ? "unknown" : text;
}

std::string utc_time(std::int64_t unix_s) {
  const std::time_t time = static_cast<std::time_t>(unix_s);
  std::tm parts{};
  char text[32] = "";
  if (gmtime_r(&time, &parts) != nullptr) {
    std::strftime(text, sizeof(text), "%Y%m%dT%H%M%S", &parts);
  }
  return text;
}

// Puts `text` before the extension of the last component, or at its end if it has none.
std::string before_extension(const std::string& path, const std::string& text) {
  const std::size_t slash = path.rfind('/');
  const std::size_t name = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = path.rfind('.');
  const bool has_extension = dot != std::string::npos && dot > name;
  const std::size_t at = has_extension ? dot : path.size();
  return path.substr(0, at) + text + path.substr(at);
}

// Replaces the fields of a pattern: `field` gives the text for a letter, `literal` for the rest.
template <typename Field, typename Literal>
std::string replace_fields(const std::string& pattern, Field field, Literal literal) {
  std::string text;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '%' && i + 1 < pattern.size() && pattern[i + 1] != '%') {
      text += field(pattern[++i]);
    } else {
      if (pattern[i] == '%' && i + 1 < pattern.size()) ++i;
      text += literal(pattern[i]);
    }
  }
  return text;
}

bool has_counter(const std::string& pattern) {
  bool found = false;
  replace_fields(
      pattern,
      [&found](char letter) {
        found = found || letter == 'n';
        return "";
      },
      [](char) { return ""; });
  return found;
}

}  // namespace

Config Config::from(const char* const* environment, std::vector<std::string>* warnings) {
  constexpr std::size_t kCount = sizeof(kRows) / sizeof(kRows[0]);
  Config config;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (kRows[i].kind == SettingKind::path && kRows[i].default_value[0] == '\0') continue;
    const Status status = assign_by_row(config, i, kRows[i].default_value);
    if (!status.ok()) warnings->push_back("default: " + status.message());
  }
  for (const char* const* entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, kPrefix, kPrefixLength) != 0) continue;
    const char* equals = std::strchr(*entry, '=');
    if (equals == nullptr || equals[1] == '\0') continue;
    const std::string name(*entry, equals);
    const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                   [&name](const auto& known) { return name == known.variable; });
    if (row == std::end(kRows)) {
      warnings->push_back(unknown_name(name));
      continue;
    }
    const Status status =
        assign_by_row(config, static_cast<std::size_t>(row - kRows), std::string(equals + 1));
    if (!status.ok()) {
      warnings->push_back(status.message() + "; using the default '" + row->default_value + "'");
    }
  }
  return config;
}

Config Config::from_environment(std::vector<std::string>* warnings) {
  return from(environ, warnings);
}

std::vector<std::string> Config::effective() const {
  std::vector<std::string> lines;
  std::size_t row = 0;
#define GPUIDLE_SETTING(kind, type, member, name, initial, minimum, maximum, unit, choices, help) \
  lines.push_back("GPUIDLE_" #name "=" + text_of(kRows[row++], member));
#include "libgpuidle/base/config.def"
#undef GPUIDLE_SETTING
  return lines;
}

std::string SettingRow::option() const {
  std::string text = "--";
  for (const char* c = variable + kPrefixLength; *c != '\0'; ++c) {
    text += *c == '_' ? '-' : static_cast<char>(*c - 'A' + 'a');
  }
  return text;
}

const std::vector<SettingRow>& setting_rows() {
  static const std::vector<SettingRow> rows(std::begin(kRows), std::end(kRows));
  return rows;
}

Status check_setting(const SettingRow& row, const std::string& value) {
  Config scratch;
  for (std::size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    if (std::strcmp(kRows[i].variable, row.variable) == 0) return assign_by_row(scratch, i, value);
  }
  return {StatusCode::internal, std::string(row.variable) + " is not a setting"};
}

OutputFields OutputFields::of_this_process() {
  OutputFields fields;
  fields.pid = static_cast<std::uint32_t>(getpid());
  char text[PATH_MAX + 1] = "";
  if (gethostname(text, sizeof(text) - 1) == 0) fields.host = text;
  const ssize_t length = readlink("/proc/self/exe", text, sizeof(text) - 1);
  const std::string path(text, length > 0 ? static_cast<std::size_t>(length) : 0);
  fields.program = path.substr(path.rfind('/') + 1);  // npos + 1 == 0
  fields.start_unix_s = static_cast<std::int64_t>(std::time(nullptr));
  return fields;
}

std::string expand_output_pattern(const std::string& pattern, const OutputFields& fields) {
  const std::string path = replace_fields(
      pattern,
      [&fields](char letter) {
        switch (letter) {
          case 'p':
            return std::to_string(fields.pid);
          case 'h':
            return as_file_name(fields.host);
          case 'e':
            return as_file_name(fields.program);
          case 't':
            return utc_time(fields.start_unix_s);
          case 'n':
            return std::to_string(fields.counter);
          default:
            return std::string("%") + letter;
        }
      },
      [](char c) { return c; });
  if (fields.counter == 0 || has_counter(pattern)) return path;
  return before_extension(path, "-" + std::to_string(fields.counter));
}

std::vector<std::string> output_globs(const std::string& pattern, const std::string& host) {
  const auto literal = [](char c) {
    const bool is_special = c == '*' || c == '?' || c == '[' || c == '\\';
    return is_special ? std::string("\\") + c : std::string(1, c);
  };
  const std::string path = replace_fields(
      pattern,
      [&](char letter) {
        if (letter == 'p' || letter == 'n' || letter == 't') return std::string("[0-9]*");
        if (letter != 'h' || host.empty()) return std::string("*");
        std::string text;
        for (const char c : as_file_name(host)) text += literal(c);
        return text;
      },
      literal);
  if (has_counter(pattern)) return {path};
  return {path, before_extension(path, "-[1-9]*")};
}

}  // namespace gpuidle::base
