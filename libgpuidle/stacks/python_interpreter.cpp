// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/python_interpreter.h"

#include <dlfcn.h>
#include <link.h>

#include <cctype>
#include <cstdlib>
#include <cstring>

#include "libgpuidle/base/loaded_objects.h"

namespace gpuidle::stacks {
namespace {

// Offsets in PyTypeObject and PyMemberDef: part of the stable layout since 3.8.
constexpr std::size_t kTypeBasicSize = 32;
constexpr std::size_t kTypeMembers = 240;
constexpr std::size_t kMemberBytes = 40;
constexpr std::size_t kMemberOffset = 16;
constexpr int kMaxMembers = 64;

template <typename T>
T load(const char* address) {
  T value;
  std::memcpy(&value, address, sizeof(value));
  return value;
}

// A libpython that was opened without being made global.
int note_libpython(dl_phdr_info* info, std::size_t, void* out) {
  if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, "libpython3") == nullptr) return 0;
  *static_cast<std::string*>(out) = info->dlpi_name;
  return 1;
}

class Exports {
 public:
  Exports() {
    if (dlsym(RTLD_DEFAULT, "PyCode_Type") != nullptr) return;
    std::string path;
    base::for_each_loaded_object(&note_libpython, &path);
    if (!path.empty()) handle_ = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  }
  ~Exports() {
    if (handle_ != RTLD_DEFAULT) dlclose(handle_);
  }
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;

  const char* find(const char* name) const {
    return static_cast<const char*>(dlsym(handle_, name));
  }
  template <typename Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(dlsym(handle_, name));
  }

 private:
  void* handle_ = RTLD_DEFAULT;
};

struct Version {
  int major = 0;
  int minor = 0;
  bool is_final = true;  // release candidates count: their layouts are those of the release
  std::string text;      // "3.11.2"
};

Version version_of(const Exports& exports) {
  Version version;
  const auto text_function = exports.function<const char* (*)()>("Py_GetVersion");
  const char* const text = text_function == nullptr ? nullptr : text_function();
  if (text == nullptr) return version;
  version.text.assign(text, std::strcspn(text, " "));
  char* end = nullptr;
  version.major = static_cast<int>(std::strtol(text, &end, 10));
  if (*end == '.') version.minor = static_cast<int>(std::strtol(end + 1, &end, 10));
  if (*end == '.') std::strtol(end + 1, &end, 10);
  version.is_final = *end != 'a' && *end != 'b';
  if (std::strstr(text, "free-threading") != nullptr) version.text += " (free-threaded)";
  return version;
}

// Where the interpreter itself says that a code object has `name`; -1 = it does not say.
std::int64_t member_offset(const char* code_type, const char* name) {
  const auto* member = load<const char*>(code_type + kTypeMembers);
  for (int i = 0; member != nullptr && i < kMaxMembers; ++i, member += kMemberBytes) {
    const auto* member_name = load<const char*>(member);
    if (member_name == nullptr) break;
    if (std::strcmp(member_name, name) == 0) return load<std::int64_t>(member + kMemberOffset);
  }
  return -1;
}

// "" if code objects are laid out as the table says, else the field that is elsewhere.
std::string differing_member(const char* code_type, const PythonLayout& layout) {
  const bool is_qualified = layout.lines == LineTable::locations;
  const struct {
    const char* name;
    std::uint16_t offset;
  } members[] = {
      {"co_firstlineno", layout.code_first_line},
      {"co_filename", layout.code_filename},
      {is_qualified ? "co_qualname" : "co_name", layout.code_name},
      {layout.lines == LineTable::increments ? "co_lnotab" : "co_linetable",
       layout.code_line_table},
  };
  for (const auto& member : members) {
    if (member_offset(code_type, member.name) != member.offset) return member.name;
  }
  if (layout.code_instructions != 0 &&
      load<std::int64_t>(code_type + kTypeBasicSize) != layout.code_instructions) {
    return "co_code_adaptive";
  }
  return {};
}

// The same for everything else, by the interpreter's own table of offsets (3.13 and later).
std::string differing_debug_offset(const char* runtime, const PythonLayout& layout) {
  constexpr std::size_t kFreeThreaded = 16;
  if (runtime == nullptr || std::memcmp(runtime, "xdebugpy", 8) != 0) return "_Py_DebugOffsets";
  const auto word = [runtime](std::size_t index) {
    return load<std::uint64_t>(runtime + kFreeThreaded + 8 * index);
  };
  for (const DebugOffsetWords& words : kDebugOffsetWords) {
    if (words.minor != layout.minor) continue;
    if (word(words.thread_frame) != layout.thread_frame) return "PyThreadState.current_frame";
    if (word(words.thread_id) != layout.thread_id) return "PyThreadState.thread_id";
    if (word(words.frame_previous) != layout.frame_previous) return "frame.previous";
    if (word(words.frame_code) != layout.frame_code) return "frame.f_executable";
    if (word(words.frame_position) != layout.frame_position) return "frame.instr_ptr";
    if (word(words.frame_kind) != layout.frame_kind) return "frame.owner";
    if (word(words.code_filename) != layout.code_filename) return "co_filename";
    if (word(words.code_name) != layout.code_name) return "co_qualname";
    if (word(words.code_line_table) != layout.code_line_table) return "co_linetable";
    if (word(words.code_first_line) != layout.code_first_line) return "co_firstlineno";
    if (word(words.code_instructions) != layout.code_instructions) return "co_code_adaptive";
    return {};
  }
  return "_Py_DebugOffsets";
}

// "" if the structs of this interpreter are those of `layout`.
std::string why_unlike(const Exports& exports, const char* code_type, const PythonLayout& layout) {
  // Debug builds put fields in front of every object or behind the counts; only they export this.
  if (exports.find("_Py_NegativeRefcount") != nullptr) return "debug builds are not supported";
  const char* const type_type = exports.find("PyType_Type");
  if (type_type == nullptr || load<const char*>(code_type + kObjectType) != type_type) {
    return "its objects do not begin as those of a release build";
  }
  std::string field = differing_member(code_type, layout);
  if (field.empty() && layout.chain == FrameChain::shims) {
    field = differing_debug_offset(exports.find("_PyRuntime"), layout);
  }
  return field.empty() ? field : "its " + field + " is not where this version's release has it";
}

void find_evaluation_loop(const Exports& exports, PythonInterpreter* python) {
  const char* const loop = exports.find("_PyEval_EvalFrameDefault");
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  if (loop == nullptr ||
      dladdr1(loop, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
              RTLD_DL_SYMENT) == 0) {
    return;
  }
  // The functions below are called as long as this process lives.
  dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  python->eval_begin = reinterpret_cast<std::uintptr_t>(loop);
  python->eval_end = python->eval_begin + (symbol == nullptr ? 0 : symbol->st_size);
}

}  // namespace

PythonSupport find_python(PythonInterpreter* python, std::string* reason) {
  const Exports exports;
  const char* const code_type = exports.find("PyCode_Type");
  if (code_type == nullptr) return PythonSupport::none;
  const Version version = version_of(exports);
  const auto refuse = [&](const std::string& why) {
    *reason =
        "CPython " + (version.text.empty() ? "of unknown version" : version.text) + ": " + why;
    return PythonSupport::refused;
  };
  if (version.text.find("free-threaded") != std::string::npos) {
    return refuse("free-threaded builds are not supported");
  }
  const PythonLayout* const layout = version.major == 3 ? python_layout(version.minor) : nullptr;
  if (layout == nullptr) return refuse("supported are 3.8 to 3.15");
  if (!version.is_final) return refuse("alpha and beta versions are not supported");
  const std::string difference = why_unlike(exports, code_type, *layout);
  if (!difference.empty()) return refuse(difference);

  python->layout = layout;
  python->code_type = reinterpret_cast<std::uintptr_t>(code_type);
  using ThreadState = void* (*)();
  python->this_thread = exports.function<ThreadState>("PyGILState_GetThisThreadState");
  python->is_initialized = exports.function<int (*)()>("Py_IsInitialized");
  if (python->this_thread == nullptr || python->is_initialized == nullptr) {
    return refuse("it does not export its thread states");
  }
  // To 3.11 this is not about the calling thread but about whoever has the GIL.
  if (version.minor == 12) {
    python->attached_thread = exports.function<ThreadState>("_PyThreadState_UncheckedGet");
  } else if (version.minor > 12) {
    python->attached_thread = exports.function<ThreadState>("PyThreadState_GetUnchecked");
  }
  find_evaluation_loop(exports, python);
  return PythonSupport::supported;
}

}  // namespace gpuidle::stacks
