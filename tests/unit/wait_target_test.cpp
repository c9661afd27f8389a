// SPDX-License-Identifier: Apache-2.0
#include "libgpuidle/stacks/wait_target.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "libgpuidle/stacks/mount_table.h"
#include "libgpuidle/stacks/socket_peers.h"
#include "libgpuidle/stacks/thread_look.h"

using namespace gpuidle::stacks;
using gpuidle::model::WaitTarget;

TEST_CASE("a system call's line gives its number, arguments and registers", "[sampler]") {
  const CallState call = parse_call_state(
      "0 0x3 0x7fc1 0x20000 0x7f0b 0xffffffff 0x0 0x7fff7743da18 0x7fc174e002ad\n");
  CHECK(call.is_known);
  CHECK_FALSE(call.is_running);
  CHECK(call.number == 0);
  CHECK(call.arguments[0] == 3);
  CHECK(call.arguments[4] == 0xffffffff);
  CHECK(call.stack_pointer == 0x7fff7743da18);
  CHECK(call.instruction == 0x7fc174e002ad);

  CHECK(parse_call_state("running\n").is_running);
  const CallState fault = parse_call_state("-1 0x7ffd10 0x4010\n");
  CHECK(fault.is_known);
  CHECK(fault.number == -1);
  CHECK(fault.stack_pointer == 0x7ffd10);
  for (const char* bad : {"", "0 0x3", "x", "-1", "0 0x1 0x2 0x3 0x4 0x5 0x6 0x7"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_call_state(bad).is_known);
  }
}

TEST_CASE("a status line is read whatever the thread is called", "[sampler]") {
  const ThreadStatus status = parse_thread_status(
      "17 (a) R 1 (b) S 42 17 17 34816 -1 4194304 95 0 7 0 1 2 0 0 20 0 1 0 100 1 2\n");
  CHECK(status.is_known);
  CHECK(status.state == 'S');
  CHECK(status.parent == 42);
  CHECK(status.major_faults == 7);
  CHECK(std::string(status.name) == "a) R 1 (b");
  for (const char* bad : {"", "17 (a", "17 (a)", "17 (a) S", "17 (a) S 1 2 3"}) {
    CAPTURE(bad);
    CHECK_FALSE(parse_thread_status(bad).is_known);
  }
}

TEST_CASE("a thread's status says which signals it blocks", "[sampler]") {
  const char* const status = "Name:\tx\nSigPnd:\t0000000000000000\nSigBlk:\t0000000000400000\n";
  CHECK(parse_is_blocked(status, 23));
  CHECK_FALSE(parse_is_blocked(status, 22));
  CHECK_FALSE(parse_is_blocked("Name:\tx\n", 23));
}

TEST_CASE("processor use has three totals or is not known", "[sampler]") {
  const ProcessorUse use = parse_processor_use("123456789 42 7\n");
  CHECK(use.is_known);
  CHECK(use.cpu_ns == 123456789);
  CHECK(use.wait_ns == 42);
  CHECK(use.turns == 7);
  CHECK_FALSE(parse_processor_use("1 2\n").is_known);
}

TEST_CASE("two looks are the same standstill only if the thread had no turn between", "[sampler]") {
  ThreadLook before;
  before.call = parse_call_state("0 0x3 0x1 0x1 0x0 0x0 0x0 0x1000 0x2000");
  before.use = parse_processor_use("10 0 5");
  ThreadLook after = before;
  CHECK(is_same_standstill(before, after));
  after.use.turns = 6;  // went on and sleeps at the same place again
  CHECK_FALSE(is_same_standstill(before, after));
  after = before;
  after.call = parse_call_state("running");
  CHECK_FALSE(is_same_standstill(before, after));
  after = before;
  after.call.stack_pointer += 16;
  CHECK_FALSE(is_same_standstill(before, after));
}

TEST_CASE("this thread is found running, in no system call", "[sampler]") {
  const ThreadLook look = look_at(ProcFolder::of_own_thread(static_cast<int>(syscall(SYS_gettid))));
  CHECK(look.status.is_known);
  CHECK(look.status.state == 'R');
  CHECK(look_at(ProcFolder::of_process(0)).is_gone());
}

TEST_CASE("a mount's type says whether its files come over the network", "[sampler]") {
  CHECK(kind_of_file_system("ext4") == WaitTarget::local_file);
  CHECK(kind_of_file_system("overlay") == WaitTarget::local_file);
  CHECK(kind_of_file_system("nfs4") == WaitTarget::network_file);
  CHECK(kind_of_file_system("lustre") == WaitTarget::network_file);
  CHECK(kind_of_file_system("fuse.sshfs") == WaitTarget::network_file);
  CHECK(kind_of_file_system("fuse.unheard_of") == WaitTarget::file);
  CHECK(kind_of_file_system("9p") == WaitTarget::file);
}

TEST_CASE("a file is on the innermost mount above it", "[sampler]") {
  MountTable mounts;
  mounts.parse(
      "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "31 22 0:41 / /mnt/my\\040data rw shared:2 master:3 - nfs4 server:/export rw,vers=4.2\n"
      "40 31 0:50 / /mnt/my\\040data/fast rw - tmpfs tmpfs rw\n"
      "a line that is none\n");
  CHECK(mounts.kind_of_mount(31) == WaitTarget::network_file);
  CHECK(mounts.kind_of_mount(22) == WaitTarget::local_file);
  CHECK(mounts.kind_of_mount(99) == WaitTarget::file);
  CHECK(mounts.kind_of_path("/mnt/my data/set/0.tar") == WaitTarget::network_file);
  CHECK(mounts.kind_of_path("/mnt/my data/fast/0.tar") == WaitTarget::local_file);
  CHECK(mounts.kind_of_path("/mnt/my database") == WaitTarget::local_file);
}

TEST_CASE("a descriptor's link and mount say what it is", "[sampler]") {
  WaitTargets targets;
  targets.mounts().parse(
      "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "31 22 0:41 / /mnt/set rw - nfs4 server:/export rw\n");
  CHECK(targets.kind_of_link("pipe:[4711]", "") == WaitTarget::pipe);
  CHECK(targets.kind_of_link("anon_inode:[eventfd]", "") == WaitTarget::event);
  CHECK(targets.kind_of_link("/dev/nvidia0", "pos:\t0\nmnt_id:\t22\n") == WaitTarget::device);
  CHECK(targets.kind_of_link("/mnt/set/0.tar", "pos:\t0\nflags:\t00\nmnt_id:\t31\nino:\t5\n") ==
        WaitTarget::network_file);
  CHECK(targets.kind_of_link("/home/0.tar", "pos:\t0\nmnt_id:\t22\n") == WaitTarget::local_file);
  CHECK(targets.kind_of_link("", "") == WaitTarget::unknown);
}

TEST_CASE("a socket's peer is on this machine or it is not", "[sampler]") {
  const char* const tcp =
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout "
      "inode\n"
      "   0: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 "
      "1455 1\n"
      "   1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 "
      "1456 1\n"
      "   2: 0F02000A:C351 22D8B85D:01BB 01 00000000:00000000 00:00000000 00000000     0        0 "
      "1457 1\n"
      "   3: 0F02000A:C352 0F02000A:1F90 01 00000000:00000000 00:00000000 00000000     0        0 "
      "1458 1\n";
  CHECK(find_internet_peer(tcp, 1455) == WaitTarget::socket);
  CHECK(find_internet_peer(tcp, 1456) == WaitTarget::local_socket);
  CHECK(find_internet_peer(tcp, 1457) == WaitTarget::external_socket);
  CHECK(find_internet_peer(tcp, 1458) == WaitTarget::local_socket);
  CHECK(find_internet_peer(tcp, 145) == WaitTarget::unknown);
  const char* const tcp6 =
      "   0: 00000000000000000000000001000000:1F90 00000000000000000000000001000000:C350 01 0:0 "
      "0:0 0 0 0 "
      "77 1\n"
      "   1: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000100007F:C350 01 0:0 "
      "0:0 0 0 0 "
      "78 1\n"
      "   2: 0000000000000000FFFF00000F02000A:1F90 0000000000000000FFFF000022D8B85D:C350 01 0:0 "
      "0:0 0 0 0 "
      "79 1\n";
  CHECK(find_internet_peer(tcp6, 77) == WaitTarget::local_socket);
  CHECK(find_internet_peer(tcp6, 78) == WaitTarget::local_socket);
  CHECK(find_internet_peer(tcp6, 79) == WaitTarget::external_socket);
  CHECK(find_unix_peer("ffff: 00000003 00000000 00000000 0001 03 12345 /run/x\n", 12345) ==
        WaitTarget::local_socket);
  CHECK(find_unix_peer("ffff: 00000003 00000000 00000000 0001 03 12345\n", 2345) ==
        WaitTarget::unknown);
}

TEST_CASE("of several waits the farthest counts", "[sampler]") {
  CHECK(farther(WaitTarget::event, WaitTarget::pipe) == WaitTarget::pipe);
  CHECK(farther(WaitTarget::external_socket, WaitTarget::pipe) == WaitTarget::external_socket);
  CHECK(farther(WaitTarget::unknown, WaitTarget::event) == WaitTarget::event);
  CHECK(farther(WaitTarget::local_socket, WaitTarget::local_socket) == WaitTarget::local_socket);
}

TEST_CASE("each system call that waits has its rule", "[sampler]") {
  CHECK(rule_of_call(SYS_futex).target == WaitTarget::lock);
  CHECK(rule_of_call(SYS_wait4).target == WaitTarget::child_process);
  CHECK(rule_of_call(SYS_read).kind == CallRule::Kind::descriptor);
  CHECK(rule_of_call(SYS_openat).kind == CallRule::Kind::path);
  CHECK(rule_of_call(SYS_openat).argument == 1);
  CHECK(rule_of_call(SYS_getpid).kind == CallRule::Kind::none);
  CHECK(rule_of_call(-1).kind == CallRule::Kind::none);
}
