// SPDX-License-Identifier: Apache-2.0
//
// Exports what only debug builds of CPython do; opened by python_interpreter_test.
extern "C" __attribute__((visibility("default"))) void _Py_NegativeRefcount() {}
