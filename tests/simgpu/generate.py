#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the code that follows from the public CUDA headers and from the lists in names/.

For each function that the sources define with DRV(name), RT(name) or CUPTI(name) it writes the
exported wrapper (callback on entry and exit, per-thread default stream variant); for every other
exported name a stub that names itself once. The headers are read at build time, never copied.
"""
import argparse
import os
import re
import subprocess
import tempfile


def preprocess(cxx, include, text):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as source:
        source.write(text)
        source.flush()
        return subprocess.run([*cxx, "-E", "-P", "-I", include, source.name], check=True,
                              stdout=subprocess.PIPE, universal_newlines=True).stdout


def split_arguments(text):
    arguments, depth, current = [], 0, ""
    for char in text:
        depth += char in "(<["
        depth -= char in ")>]"
        if char == "," and depth == 0:
            arguments.append(current.strip())
            current = ""
        else:
            current += char
    if current.strip() and current.strip() != "void":
        arguments.append(current.strip())
    return [re.sub(r"\s*=.*$", "", argument) for argument in arguments]


def argument_name(argument):
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", argument)
    return pointer.group(1) if pointer else re.search(r"(\w+)\s*(\[\w*\])?$", argument).group(1)


def prototypes(text, prefix):
    """{name: (return type, [argument declarations])} of the declarations in preprocessed text."""
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", text)
    found = {}
    pattern = (r"(?:extern\s+)?((?:const\s+)?\w[\w ]*?\**)\s*\b(" + prefix +
               r"\w+)\s*\(((?:[^()]|\([^()]*\))*)\)\s*;")
    for match in re.finditer(pattern, text):
        result = match.group(1).replace("extern", "").strip()
        if "typedef" in result or "return" in result or not result:
            continue
        found.setdefault(match.group(2), (result, split_arguments(match.group(3))))
    return found


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def write(path, text):
    if not (os.path.exists(path) and read(path) == text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def enum_values(path, prefix):
    return {name: int(value) for name, value in
            re.findall(prefix + r"(\w+)\s*=\s*(\d+)", read(path))}


def implemented(sources, macro):
    names = set()
    for source in sources:
        names.update(re.findall(r"\b" + macro + r"\((\w+)\)", read(source)))
    return names


def read_names(directory, library):
    return read(os.path.join(directory, library + ".txt")).split()


STREAM_SUFFIX = re.compile(r"_(ptsz|ptds)$")


class Generator:
    def __init__(self, options):
        self.options = options
        self.meta = {}
        for library, header in (("cuda", "generated_cuda_meta.h"),
                                ("cudart", "generated_cuda_runtime_api_meta.h")):
            self.meta[library] = set(re.findall(
                r"\}\s*(\w+_params);", read(os.path.join(options.include, header))))

    def out(self, name, text):
        write(os.path.join(self.options.out, name), text)

    def version_script(self, library, node, extra=()):
        names = read_names(self.options.names, library) + list(extra)
        body = "".join("    %s;\n" % name for name in names)
        self.out(library + ".map", ("%s {\n  global:\n%s  local: *;\n};\n" % (node, body)).lstrip())

    def stubs(self, library, done, result):
        lines = ["// Generated. Functions without an implementation.\n",
                 '#ifdef __cplusplus\nextern "C" {\n#endif\n',
                 "int simgpu_unimplemented(const char* name, int result);\n"]
        for name in read_names(self.options.names, library):
            if name not in done:
                lines.append('__attribute__((visibility("default"))) int %s(void);\n'
                             "int %s(void) { static int result = 0; if (!result) "
                             'result = simgpu_unimplemented("%s", %d); return result; }\n'
                             % (name, name, name, result))
        lines.append("#ifdef __cplusplus\n}\n#endif\n")
        self.out(library + "_stubs.c", "".join(lines))

    def wrapper(self, export, base, prototype, domain, cbid, params, kind):
        result, arguments = prototype
        names = [argument_name(argument) for argument in arguments]
        call = "impl_%s(%s)" % (base, ", ".join(names))
        text = 'SIMGPU_EXPORT %s %s(%s) {\n' % (result, export, ", ".join(arguments))
        if export != base:
            text += "  PerThreadDefaultStream sim_per_thread;\n"
        if cbid is None or result not in ("CUresult", "cudaError_t"):
            return text + "  return %s;\n}\n" % call
        text += "  Hub* sim_hub = %s_hub();\n" % kind
        text += "  const Tool* sim_tool = sim_hub->tool.load(std::memory_order_acquire);\n"
        text += "  if (__builtin_expect(sim_tool == nullptr, 1)) return %s;\n" % call
        text += '  static const CallSite sim_site = {%d, %d, "%s"};\n' % (domain, cbid, export)
        pointer = "nullptr"
        if params and names:
            text += "  %s sim_params = {%s};\n" % (params, ", ".join(names))
            pointer = "&sim_params"
        symbol = "nullptr"
        if re.search(r"Launch(Cooperative)?Kernel", base):
            function = next((n for n in ("func", "f", "kernel") if n in names), None)
            symbol = "launch_symbol(%s)" % function if function else "nullptr"
        text += "  CallScope sim_scope(sim_hub, sim_tool, sim_site, %s, %s);\n" % (pointer, symbol)
        return text + "  return sim_scope.finish(%s);\n}\n" % call

    def api(self, library, macro, protos, domain, cbids, meta, kind, find_cbid, find_params):
        names = read_names(self.options.names, library)
        impls = implemented(self.options.sources, macro)
        header = ["#pragma once\n// Generated. Declarations of the implementations.\n"]
        body = ["// Generated. Exported entry points.\n"]
        done = set()
        for name in sorted(impls):
            if name not in protos:
                raise SystemExit("%s(%s): no prototype in the headers" % (macro, name))
            result, arguments = protos[name]
            header.append("%s impl_%s(%s);\n" % (result, name, ", ".join(arguments)))
            if name not in names:
                raise SystemExit("%s(%s): not an exported name" % (macro, name))
        for export in names:
            base = export if export in impls else STREAM_SUFFIX.sub("", export)
            if base in impls:
                body.append(self.wrapper(export, base, protos[base], domain,
                                         find_cbid(cbids, export), find_params(meta, export), kind))
                done.add(export)
        self.out(kind + "_impl.h", "".join(header))
        self.out(kind + "_exports.inc", "".join(body))
        self.stubs(library, done, 801)

    def driver(self):
        options = self.options
        text = preprocess(options.cxx, options.include,
                          "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
                          "#include <cudaProfiler.h>\n")
        protos = prototypes(text, "cu[A-Z]")
        cbids = enum_values(os.path.join(options.include, "cupti_driver_cbid.h"),
                            "CUPTI_DRIVER_TRACE_CBID_")
        self.api("libcuda", "DRV", protos, 1, cbids, self.meta["cuda"], "driver",
                 lambda table, name: table.get(name),
                 lambda table, name: next((n + "_params" for n in
                                           (name, STREAM_SUFFIX.sub("", name))
                                           if n + "_params" in table), None))
        self.version_script("libcuda", "", ("simcuda_*",))  # the real one has no version node
        self.procs(set(read_names(options.names, "libcuda")))

    def procs(self, exported):
        """The rule of cuGetProcAddress: the i-th version of a typedef is the i-th symbol."""
        rows = []
        versions = {}
        text = read(os.path.join(self.options.include, "cudaTypedefs.h"))
        for name, version, suffix in re.findall(
                r"\bPFN_(cu\w+?)_v(\d+)(_ptsz|_ptds)?\b\s*\)", text):
            versions.setdefault((name, suffix), set()).add(int(version))
        for name, suffix in sorted(versions):
            if suffix:
                continue
            threaded = versions.get((name, "_ptsz"), set()) | versions.get((name, "_ptds"), set())
            for index, version in enumerate(sorted(versions[(name, "")])):
                symbol = name if index == 0 else "%s_v%d" % (name, index + 1)
                if symbol not in exported:
                    continue
                variant = next((symbol + s for s in ("_ptsz", "_ptds")
                                if threaded and symbol + s in exported), symbol)
                rows.append((name, version, symbol, variant))
        externs = sorted({r[2] for r in rows} | {r[3] for r in rows})
        self.out("driver_procs.c",
                 "// Generated. Names, versions and entry points for cuGetProcAddress.\n"
                 '#include "device/procs.h"\n' +
                 "".join("extern int %s(void);\n" % name for name in externs) +
                 "const struct SimgpuProc simgpu_procs[] = {\n" +
                 "".join('    {"%s", %d, %s, %s},\n' % row for row in rows) +
                 "};\nconst unsigned simgpu_proc_count = %d;\n" % len(rows))

    def runtime(self):
        options = self.options
        text = preprocess(options.cxx, options.include,
                          "#include <cuda_runtime_api.h>\n#include <cuda_profiler_api.h>\n")
        protos = prototypes(text, "cuda[A-Z]")
        protos.update(RUNTIME_INTERNALS)
        cbids = enum_values(os.path.join(options.include, "cupti_runtime_cbid.h"),
                            "CUPTI_RUNTIME_TRACE_CBID_")

        def newest(table, name, tail):
            found = [(int(m.group(1)), entry) for entry in table
                     for m in [re.fullmatch(re.escape(name) + r"_v(\d+)" + tail, entry)] if m]
            return max(found)[1] if found else None

        def find_cbid(table, name):
            entry = newest(table, name, "")
            return table[entry] if entry else None

        self.api("libcudart", "RT", protos, 2, cbids, self.meta["cudart"], "runtime", find_cbid,
                 lambda table, name: newest(table, name, "_params"))
        self.version_script("libcudart", "libcudart.so.13", ("simgpu_runtime_marker",))
        self.driver_table()

    def driver_table(self):
        """The driver functions that the runtime uses, by a scan of its sources."""
        names = set()
        for source in self.options.sources:
            if os.sep + "runtime" + os.sep in source:
                names.update(re.findall(r"\bdriver\(\)\.(cu\w+)", read(source)))
        expanded = preprocess(self.options.cxx, self.options.include,
                              "#include <cuda.h>\n" +
                              "".join("@@ %s\n" % n for n in sorted(names)))
        expansions = re.findall(r"@@ (\w+)", expanded)
        procs = {}
        for row in re.findall(r'\{"(\w+)", (\d+), (\w+), \w+\}',
                              read(os.path.join(self.options.out, "driver_procs.c"))):
            procs.setdefault((row[0], row[2]), int(row[1]))
        fields, loads = [], []
        for name, symbol in zip(sorted(names), expansions):
            if (name, symbol) not in procs:
                raise SystemExit("driver().%s: %s has no version" % (name, symbol))
            fields.append("  decltype(&::%s) %s;\n" % (name, name))
            loads.append('SIMGPU_DRIVER_CALL("%s", %d, %s)\n'
                         % (name, procs[(name, symbol)], name))
        self.out("driver_table.h", "#pragma once\n// Generated.\nstruct DriverTable {\n" +
                 "".join(fields) + "};\n")
        self.out("driver_table.inc", "".join(loads))

    def cupti(self):
        options = self.options
        self.stubs("libcupti", implemented(options.sources, "CUPTI"), 27)
        self.version_script("libcupti", "libcupti.so.13", ("simcupti_*",))
        text = ""
        for array, header, prefix in (
                ("kDriverNames", "cupti_driver_cbid.h", "CUPTI_DRIVER_TRACE_CBID_"),
                ("kRuntimeNames", "cupti_runtime_cbid.h", "CUPTI_RUNTIME_TRACE_CBID_")):
            values = enum_values(os.path.join(options.include, header), prefix)
            values = {v: k for k, v in values.items() if k not in ("INVALID", "SIZE", "FORCE_INT")}
            top = max(v for v in values if v < 100000)
            text += "const char* const %s[] = {\n" % array
            text += "".join("    %s,\n" % ('"%s"' % values[i] if i in values else "nullptr")
                            for i in range(top + 1)) + "};\n"
        self.out("cupti_names.inc", text)


RUNTIME_INTERNALS = {
    "__cudaRegisterFatBinary": ("void**", ["void* fatCubin"]),
    "__cudaRegisterFatBinaryEnd": ("void", ["void** fatCubinHandle"]),
    "__cudaUnregisterFatBinary": ("void", ["void** fatCubinHandle"]),
    "__cudaRegisterVar": ("void", [
        "void** fatCubinHandle", "char* hostVar", "char* deviceAddress", "const char* deviceName",
        "int ext", "size_t size", "int constant", "int global"]),
    "__cudaRegisterHostVar": ("void", [
        "void** fatCubinHandle", "const char* deviceName", "char* hostVar", "size_t size"]),
    "__cudaRegisterManagedVar": ("void", [
        "void** fatCubinHandle", "void** hostVarPtrAddress", "char* deviceAddress",
        "const char* deviceName", "int ext", "size_t size", "int constant", "int global"]),
    "__cudaInitModule": ("char", ["void** fatCubinHandle"]),
    "__cudaRegisterFunction": ("void", [
        "void** fatCubinHandle", "const char* hostFun", "char* deviceFun", "const char* deviceName",
        "int thread_limit", "uint3* tid", "uint3* bid", "dim3* bDim", "dim3* gDim", "int* wSize"]),
    "__cudaPushCallConfiguration": ("unsigned", [
        "dim3 gridDim", "dim3 blockDim", "size_t sharedMem", "struct CUstream_st* stream"]),
    "__cudaPopCallConfiguration": ("cudaError_t", [
        "dim3* gridDim", "dim3* blockDim", "size_t* sharedMem", "void* stream"]),
    "__cudaGetKernel": ("cudaError_t", ["cudaKernel_t* kernel", "const void* func"]),
    "__cudaLaunchKernel": ("cudaError_t", [
        "cudaKernel_t kernel", "dim3 gridDim", "dim3 blockDim", "void** args", "size_t sharedMem",
        "cudaStream_t stream"]),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--include", required=True)
    parser.add_argument("--names", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--cxx", required=True, type=lambda text: text.split(";"))
    parser.add_argument("--sources", required=True, nargs="+")
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    generator = Generator(options)
    generator.driver()
    generator.runtime()
    generator.cupti()


if __name__ == "__main__":
    main()
