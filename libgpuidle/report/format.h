// SPDX-License-Identifier: Apache-2.0
//
// How numbers, names and paragraphs look in text reports: units always, no more digits than help,
// 80 columns. Fed and used by the text reports.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace gpuidle::report {

inline constexpr std::size_t kColumns = 80;

/// Four significant digits with the largest unit that fits: "0 ns", "12.35 us", "1.234 s".
std::string format_duration(std::int64_t ns);

/// "12.3 %" of `whole`; "-" if `whole` is not positive. Shares that are not 0 or 1 never read
/// "0.0 %" or "100.0 %", but "<0.1 %" and ">99.9 %".
std::string format_share(std::int64_t part, std::int64_t whole);

/// "1,234,567".
std::string format_count(std::uint64_t count);

/// "1 gap", "2 gaps".
std::string count_of(std::uint64_t count, std::string_view singular);

/// At most `width` columns, the middle replaced by "...": both ends of a C++ name or a path tell
/// more than its middle. Control characters become '?'; UTF-8 sequences are kept whole.
std::string elide(std::string_view text, std::size_t width);

/// The same for paths: the beginning is replaced, the end with the file's name stays.
std::string elide_front(std::string_view text, std::size_t width);

/// What follows the last '/'; all of it if there is none.
std::string_view base_name(std::string_view path);

/// Columns that `text` takes: one per UTF-8 sequence.
std::size_t columns_of(std::string_view text);

/// `text` cut at blanks into lines of at most kColumns; the first starts with `first_indent`, the
/// rest with as many blanks as `indent`. Numbers keep their unit. Ends with a newline. A word that
/// is longer than a line stays whole.
std::string wrap(std::string_view text, std::string_view first_indent, std::size_t indent);

}  // namespace gpuidle::report
