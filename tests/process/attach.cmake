# SPDX-License-Identifier: Apache-2.0
#
# Attaching to running programs: through the control block, and by injection.
gpuidle_add_process_test(attach_test)
gpuidle_add_process_test(attach_hostile_test)
