# SPDX-License-Identifier: Apache-2.0
"""Control blocks full of nonsense: neither the command nor the program under it may suffer."""

import os
import random
import subprocess
import time

import run_simulated as sim
from attach_target import attach, blocks_of, running

ROUNDS = 40
COMMANDS = (["attach", "--status"], ["attach", "--duration", "200ms", "-q"], ["top", "--rounds", "1"])


class Hostile(sim.TestCase):
    def test_random_pages_crash_neither_side(self):
        generator = random.Random(7)
        with running(self.folder) as program:
            program.wait_for_block()
            block = blocks_of(program.pid)[0]
            good = block.read_bytes()
            for number in range(ROUNDS):
                page = bytearray(good if number % 2 else generator.randbytes(len(good)))
                # Behind a true head, so that more than the head is looked at.
                for _ in range(generator.randrange(1, 200)):
                    page[generator.randrange(64, len(page))] = generator.randrange(256)
                with block.open("r+b") as file:
                    file.write(page)
                command = COMMANDS[number % len(COMMANDS)]
                try:
                    finished = sim.gpuidle(command[0], program.pid, *command[1:], timeout=60)
                except subprocess.TimeoutExpired:
                    self.fail(f"round {number}: {command} hangs")
                self.assertGreaterEqual(finished.returncode, 0, f"round {number}: {command}")
                self.assertTrue(program.is_running(), program.stderr)
            with block.open("r+b") as file:
                file.write(good)
            time.sleep(0.5)
            self.assertTrue(program.is_running())

    def test_a_block_that_is_a_link_or_cut_is_not_followed(self):
        with running(self.folder) as program:
            program.wait_for_block()
            block = blocks_of(program.pid)[0]
            block.unlink()
            secret = self.folder / "secret"
            secret.write_bytes(b"x" * 4096)
            block.symlink_to(secret)
            finished = attach(program)
            block.unlink()
            self.assertNotEqual(finished.returncode, 0)
            self.assertIn("is a link", finished.stderr)
            self.assertEqual(secret.read_bytes(), b"x" * 4096)

    def test_a_block_of_another_user_is_not_used(self):
        if os.geteuid() != 0:
            self.skipTest("needs root, to be two users")
        with running(self.folder) as program:
            program.wait_for_block()
            block = blocks_of(program.pid)[0]
            os.chown(block, 65534, 65534)
            finished = attach(program)
            self.assertIn("another user", finished.stderr)
            self.assertNotEqual(finished.returncode, 0)
            self.assertTrue(program.is_running())


if __name__ == "__main__":
    sim.main()
