# SPDX-License-Identifier: Apache-2.0
"""Calls in every shape that Python knows, and compares the recorder's stack with Python's own.

Run by python_frames_test.py with each interpreter that is installed (3.8 syntax, standard library
only); argument: the probe library. Prints one line per difference and a summary; exits with 1 if
there was a difference.
"""

import asyncio
import contextlib
import ctypes
import functools
import importlib
import operator
import re
import sys
import tempfile
import threading
import weakref

KEPT_PYTHON_FRAMES = 128
EVALUATION_LOOP = "_PyEval_EvalFrameDefault"

library = ctypes.CDLL(sys.argv[1])  # gives the GIL back during a call, as real CUDA bindings do
library_with_gil = ctypes.PyDLL(sys.argv[1])
library.probe_prepare.restype = ctypes.c_char_p

differences = []
seen = {}  # label -> number of Python frames


def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def own_stack(frame):
    stack = []
    while frame is not None:
        code = frame.f_code
        stack.append((name_of(code), code.co_filename, frame.f_lineno or 0))
        frame = frame.f_back
    return stack


def probe(ask, *arguments):
    buffer = ctypes.create_string_buffer(1 << 18)
    if ask(buffer, len(buffer), *arguments) < 0:
        sys.exit("python_shapes.py: the probe's answer is longer than expected")
    return [line.split("\t") for line in buffer.value.decode().splitlines()]


def check(label, probed=library):
    by_address = probe(probed.probe_stack, 1, 0)
    by_loop = probe(probed.probe_stack, 0, 0)
    by_recorder = probe(probed.probe_recorder)
    expected = own_stack(sys._getframe(1))[: KEPT_PYTHON_FRAMES - 2]
    compare(label, by_address, by_loop, expected)
    compare_recorder(label, by_address, by_recorder)


def compare_recorder(label, by_address, by_recorder):
    """The recorder's stack is the other one without the probe's own frames, cut to a length."""
    def kinds(stack):
        return "".join(f[0][0] for f in stack).lstrip("n")[: KEPT_PYTHON_FRAMES - 4]

    def python(stack):
        return [f[1:] for f in stack if f[0] == "python"][2:]

    taken = python(by_recorder)
    if not taken or taken != python(by_address)[: len(taken)]:
        differences.append(f"{label}: the recorder's own walk gives {taken},\n"
                           f"  libgcc's {python(by_address)}")
    shorter = min(len(kinds(by_address)), len(kinds(by_recorder)))
    if shorter == 0 or kinds(by_address)[:shorter] != kinds(by_recorder)[:shorter]:
        differences.append(f"{label}: the recorder's own walk gives {by_recorder},\n"
                           f"  libgcc's {by_address}")


def compare(label, by_address, by_loop, expected):
    for way, stack in (("by address", by_address), ("by loop", by_loop)):
        python = [(f[1], f[2], int(f[3])) for f in stack if f[0] == "python"]
        # The two innermost are probe() and check().
        if [f[0] for f in python[:2]] != ["probe", "check"] or python[2:] != expected:
            differences.append(f"{label} {way}:\n  recorder {python}\n  python   {expected}")
        left = [f[1] for f in stack if f[0] == "native" and f[1] == EVALUATION_LOOP]
        if left and len(expected) < KEPT_PYTHON_FRAMES - 2:
            differences.append(f"{label} {way}: {len(left)} native frames of the interpreter's loop"
                               " have kept their place")
    # Where the loop's frames are is found in two independent ways.
    if [f[0] for f in by_address] != [f[0] for f in by_loop]:
        differences.append(f"{label}: the two ways to merge put frames at different places:\n"
                           f"  {by_address}\n  {by_loop}")
    seen[label] = len(expected)


def simple():
    check("a call")


def lines_of_one_expression():
    return [
        check("first line of an expression"),
        check("second line"), check("second line, again"),
        (lambda:
         check("a lambda over two lines"))(),
    ]


def with_gil():
    check("GIL held", library_with_gil)


def mapped():
    list(map(lambda _: check("map"), [1]))
    list(map(functools.partial(check), ["partial in map"]))
    list(filter(lambda _: check("filter"), [1]))


def sorted_key():
    sorted([2, 1], key=lambda _: check("sorted key") or 0)


def reduced():
    functools.reduce(lambda a, b: check("reduce"), [1, 2, 3])


def comprehensions():
    [check("list comprehension") for _ in range(1)]
    {check("set comprehension") for _ in range(1)}
    list(check("generator expression") for _ in range(1))


class Dunder:
    def __init__(self):
        check("__init__")

    def __del__(self):
        check("__del__")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return check("__getattr__")

    def __getitem__(self, key):
        return check("__getitem__")

    def __eq__(self, other):
        check("__eq__")
        return True

    def __hash__(self):
        check("__hash__")
        return 1

    def __lt__(self, other):
        check("__lt__")
        return True

    def __call__(self):
        check("__call__")

    def __format__(self, spec):
        check("__format__")
        return ""

    def __iter__(self):
        check("__iter__")
        return self

    def __next__(self):
        check("__next__")
        raise StopIteration

    def __enter__(self):
        check("__enter__")

    def __exit__(self, *_):
        check("__exit__")

    def __add__(self, other):
        check("__add__")
        return self

    @property
    def value(self):
        return check("property")

    @functools.lru_cache(maxsize=1)
    def cached(self):
        return check("lru_cache")


def dunder():
    thing = Dunder()
    thing.missing
    operator.itemgetter(1)(thing)
    [1].count(thing)
    {thing: 1}
    sorted([thing, thing])
    thing()
    f"{thing}"
    list(thing)
    with thing:
        pass
    sum([thing], thing)
    thing.value
    thing.cached()
    type(thing).cached.cache_clear()
    del thing


def generators():
    def inner():
        yield check("generator")

    def outer():
        yield from inner()
        check("after yield from")

    for _ in outer():
        pass
    generator = inner()
    next(generator)
    with contextlib.suppress(StopIteration):
        generator.send(None)

    def closed():
        try:
            yield 1
        finally:
            check("generator close")

    generator = closed()
    next(generator)
    generator.close()


@contextlib.contextmanager
def managed():
    check("contextmanager enter")
    yield
    check("contextmanager exit")


def managed_block():
    with managed():
        check("inside with")


def coroutines():
    async def leaf():
        check("coroutine")

    async def ticks():
        yield 1
        check("async generator")

    async def main():
        await leaf()
        async for _ in ticks():
            pass
        await asyncio.gather(leaf(), leaf())

    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
    loop.close()


def callbacks():
    kind = ctypes.CFUNCTYPE(None)
    called = kind(lambda: check("ctypes callback"))
    called()
    compare_kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    array = (ctypes.c_int * 2)(2, 1)
    qsort = ctypes.CDLL(None).qsort
    qsort(array, ctypes.c_size_t(2), ctypes.c_size_t(4),
          compare_kind(lambda a, b: check("qsort callback") or 0))
    library.probe_call_on_new_thread(kind(lambda: check("callback on a foreign thread")))


def partial_recursion(depth=30):
    if depth == 0:
        return check("functools.partial recursion")
    return functools.partial(partial_recursion, depth - 1)()


def recursion(depth):
    return check("recursion") if depth == 0 else recursion(depth - 1)


def deep_recursion(depth=400):
    return check("deep recursion") if depth == 0 else deep_recursion(depth - 1)


def deep_map(depth=60):
    return check("deep map") if depth == 0 else list(map(deep_map, [depth - 1]))


class Meta(type):
    def __call__(cls, *arguments):
        check("metaclass call")
        return super().__call__(*arguments)

    def __instancecheck__(cls, instance):
        check("__instancecheck__")
        return True


class OfMeta(metaclass=Meta):
    def __new__(cls):
        check("__new__")
        return super().__new__(cls)

    def __init_subclass__(cls):
        check("__init_subclass__")


def metaclasses():
    isinstance(1, OfMeta)
    OfMeta()

    class Derived(OfMeta):
        check("class body")

    return Derived


def executed():
    exec("def f():\n\n  check('exec')\nf()", globals())
    eval("check('eval')", globals())
    exec(compile("\n" * 299 + "def f():\n  x = 1\n" + "\n" * 600 + "  check('far lines')\nf()\n",
                 "far.py", "exec"), globals())


def foreign_names():
    source = "class Füchse:\n  def 狐(self):\n    check('names beyond ASCII')\nFüchse().狐()\n"
    exec(compile(source, "/tmp/füchse/狐狸.py", "exec"), globals())
    exec(compile("def é():\n  check('Latin-1 names')\né()\n", "/tmp/é.py", "exec"), globals())
    exec(compile("def f():\n  check('empty file name')\nf()\n", "", "exec"), globals())


def exceptions():
    try:
        raise ValueError
    except ValueError:
        check("except")
    finally:
        check("finally")
    try:
        try:
            raise KeyError
        finally:
            check("finally while raising")
    except KeyError:
        pass


def many_builtins():
    re.sub("a", lambda match: check("re.sub") or "", "a")
    thing = type("Thing", (), {})()
    reference = weakref.ref(thing, lambda _: check("weakref callback"))
    del thing
    return reference


def imported():
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/gpuidle_imported_module.py", "w", encoding="utf-8") as out:
            out.write("import __main__\n\n__main__.check('import')\n")
        sys.path.insert(0, folder)
        importlib.import_module("gpuidle_imported_module")
        sys.path.remove(folder)


def traced():
    sys.setprofile(lambda *_: None)
    try:
        check("with a profile function")
    finally:
        sys.setprofile(None)


def threads():
    def work(number):
        for _ in range(20):
            check(f"thread {number}")
            list(map(lambda _: check(f"map in thread {number}"), [1]))

    all_threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in all_threads:
        thread.start()
    for thread in all_threads:
        thread.join()


def inside_torch():
    """The deepest stacks in practice; only where the interpreter has PyTorch."""
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        return

    class Watched(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            check("torch forward")
            return x * 2

        @staticmethod
        def backward(context, gradient):
            check("torch backward")
            return gradient * 2

    torch.set_num_threads(1)
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    for layer in layers:
        layer.register_forward_hook(lambda *_: check("torch forward hook"))
    x = torch.ones(4, 8, requires_grad=True)
    x.register_hook(lambda _: check("torch tensor hook"))
    loss = layers(Watched.apply(x)).sum()
    loss.backward()
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)

    def closure():
        check("torch optimizer closure")
        return loss.detach()

    optimizer.step(closure)
    data = torch.utils.data.TensorDataset(torch.ones(4, 8))
    loader = torch.utils.data.DataLoader(data, collate_fn=lambda _: check("torch collate"))
    list(loader)


def main():
    reason = library.probe_prepare().decode()
    if reason:
        sys.exit(f"python_shapes.py: Python frames are off: {reason}")
    for shape in (simple, lines_of_one_expression, with_gil, mapped, sorted_key, reduced,
                  comprehensions, dunder, generators, managed_block, coroutines, callbacks,
                  partial_recursion, functools.partial(recursion, 40), deep_recursion, deep_map,
                  metaclasses, executed, foreign_names, exceptions, many_builtins, imported, traced,
                  threads, inside_torch):
        shape()
    counts = (ctypes.c_uint64 * 4)()
    library.probe_counts(counts)
    print("\n".join(differences[:10]))
    print(f"{len(seen)} shapes, {len(differences)} differences, {counts[0]} broken stacks, "
          f"{counts[1]} misplaced frames, {counts[2]} unnamed frames")
    sys.exit(1 if differences or counts[0] or counts[2] else 0)


if __name__ == "__main__":
    main()
