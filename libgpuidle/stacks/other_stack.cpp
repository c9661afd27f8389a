// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/other_stack.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "libgpuidle/base/loaded_objects.h"

namespace gpuidle::stacks {
namespace {

// Of a deeper stack the innermost part is read. 60 frames of PyTorch take 20 KiB.
constexpr std::size_t kCopyBytes = std::size_t{256} << 10;
constexpr std::uintptr_t kRedZoneBytes = 128;

// Code of a function of the C library, [begin, end); {0, 0}: not found.
struct Function {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool returns_into(const NativeFrame& frame) const {
    const auto address = reinterpret_cast<std::uintptr_t>(frame.return_address);
    return address > begin && address <= end;
  }
};

Function find_function(const char* name) {
  void* const address = dlsym(RTLD_DEFAULT, name);
  Dl_info info;
  const ElfW(Sym)* symbol = nullptr;
  if (address == nullptr ||
      dladdr1(address, &info, reinterpret_cast<void**>(const_cast<ElfW(Sym)**>(&symbol)),
              RTLD_DL_SYMENT) == 0 ||
      symbol == nullptr) {
    return {};
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  return {begin, begin + symbol->st_size};
}

// The loaded segments of the object that has the interpreter's code.
struct ObjectSearch {
  std::uintptr_t inside = 0;
  Function found;
};
int find_object(dl_phdr_info* info, std::size_t, void* out) {
  auto* const search = static_cast<ObjectSearch*>(out);
  Function object{UINTPTR_MAX, 0};
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD) continue;
    const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
    object.begin = std::min(object.begin, begin);
    object.end = std::max(object.end, begin + segment.p_memsz);
  }
  if (search->inside < object.begin || search->inside >= object.end) return 0;
  search->found = object;
  return 1;
}

Function find_interpreter() {
  ObjectSearch search;
  search.inside = PythonFrames::evaluation_loop().begin;
  if (search.inside != 0) base::for_each_loaded_object(&find_object, &search);
  return search.found;
}

}  // namespace

struct OtherStack::Room {
  StackWalker* walker = nullptr;
  // CPython waits on conditions for the GIL alone; its other locks are semaphores.
  Function waits[2];
  Function interpreter;
  PeekedPython python{};
  NativeFrame frames[CallStack::kMaxFrames];
  alignas(16) unsigned char copy[kCopyBytes];
};

bool OtherStack::prepare() {
  void* const memory = mmap(nullptr, sizeof(Room), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  StackWalker* const walker = memory == MAP_FAILED ? nullptr : StackWalker::map_new();
  if (walker == nullptr) return false;
  // Default-initialised: the big arrays stay untouched zero pages.
  room_ = new (memory) Room;
  room_->walker = walker;
  room_->waits[0] = find_function("pthread_cond_timedwait");
  room_->waits[1] = find_function("pthread_cond_wait");
  room_->interpreter = find_interpreter();
  return true;
}

bool OtherStack::is_permitted() const { return room_->python.windows.is_permitted(); }

int OtherStack::capture(const KnownThread& thread, std::uintptr_t stack_pointer,
                        std::uintptr_t instruction, std::uint64_t* words, int max_words,
                        bool* is_cut, bool* waits_for_python) {
  *is_cut = *waits_for_python = false;
  Room& room = *room_;
  if (!thread.bounds.contains(stack_pointer)) return 0;
  const std::uintptr_t begin = stack_pointer - kRedZoneBytes;
  const std::size_t bytes = std::min<std::size_t>(thread.bounds.end - begin, kCopyBytes);
  if (!room.python.windows.copy(reinterpret_cast<const char*>(begin), room.copy, bytes)) return 0;
  const auto copy_begin = reinterpret_cast<std::uintptr_t>(room.copy);
  room.walker->set_copy({begin, begin + bytes}, copy_begin - begin);
  // Inside a system call rbp is not known; frames that are found by it alone end the walk.
  Registers start{};
  start.values[kRsp] = stack_pointer;
  start.values[kRip] = instruction;
  const WalkResult walk =
      room.walker->walk(start, room.frames, std::min(max_words, CallStack::kMaxFrames));
  *is_cut = walk.end != StackEnd::complete;
  // The system call, perhaps one frame of the C library's around it, the wait, who waits.
  constexpr int kMostInside = 3;
  for (int i = 1; i + 1 < walk.count && i <= kMostInside; ++i) {
    const NativeFrame& frame = room.frames[i];
    *waits_for_python |= (room.waits[0].returns_into(frame) || room.waits[1].returns_into(frame)) &&
                         room.interpreter.returns_into(room.frames[i + 1]);
  }
  return PythonFrames::capture_other(thread, room.frames, walk.count, words, max_words,
                                     &room.python, is_cut);
}

}  // namespace gpuidle::stacks
