// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/symbols/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace gpuidle::symbols {
namespace {

// "a::f<int>(int, char*) const" -> "a::f<int>". The parameters are often longer than a line of a
// report, and the source line tells overloads apart.
std::string without_parameters(std::string name) {
  std::size_t end = name.rfind(')');
  // Behind the parameters there may be qualifiers, but no further name.
  if (end == std::string::npos || name.find("::", end) != std::string::npos) return name;
  int depth = 0;
  for (std::size_t i = end + 1; i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) {
      // "operator()" alone, or a name that is nothing but a group: not a parameter list.
      const bool is_list = i > 0 && (i < 8 || name.compare(i - 8, 8, "operator") != 0);
      if (is_list) name.resize(i);
      return name;
    }
  }
  return name;
}

}  // namespace

std::string demangle(std::string_view mangled) {
  const std::string name(mangled);
  if (name.compare(0, 2, "_Z") != 0) return name;  // else "i" would become "int"
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text ? without_parameters(text.get()) : name;
}

}  // namespace gpuidle::symbols
