"""The sandbox of Social Code: hostile programs end with a clear result, and the function's process lives on."""

import resource
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE

import pytest

from examples.social_sandbox import main as sandbox
from examples.social_sandbox.main import BadRun, lock, run_tests
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

ADD = "def Add(a, b):\n    return a + b"

FAILS_WITH = {
    # Endless loops, and code that catches everything
    "while True: pass": "TimeoutError",
    "for _ in iter(int, 1): pass": "TimeoutError|TypeError|NameError",
    "while True:\n try:\n  while True: pass\n except BaseException: pass": "TimeoutError",
    "def f():\n try:\n  f()\n except RecursionError:\n  f()\nf()": "TimeoutError|RecursionError",
    "x = 0\nwhile x < 10**12: x += 1": "TimeoutError",
    "sum(range(10**12))": "TimeoutError|MemoryError|OverflowError",
    "def g():\n while True: yield 1\nfor _ in g(): pass": "TimeoutError|SyntaxError|not",
    "any(x < 0 for x in range(10**12))": "TimeoutError|MemoryError",
    "x = [1]\nfor y in x: x.append(y)": "TimeoutError|MemoryError",
    "while True:\n try: check(False)\n except BaseException: pass": "RuntimeError: suspension limit",
    "while True: check(True)": "RuntimeError: suspension limit",
    "sorted([3, 2, 1] * 10**5, key=lambda x: sum(range(10**6)))": "TimeoutError|MemoryError",
    # Memory
    "x = 'a' * 10**9": "MemoryError|TimeoutError",
    "x = b'a' * 10**9": "MemoryError|TimeoutError",
    "x = [0] * 10**9": "MemoryError|TimeoutError",
    "x = (0,) * 10**9": "MemoryError|TimeoutError",
    "x = []\nwhile True: x.append(x)": "MemoryError|TimeoutError",
    "x = {}\nwhile True: x[len(x)] = 'a' * 1000": "MemoryError|TimeoutError",
    "x = 'a'\nwhile True: x += x": "MemoryError|TimeoutError",
    "x = [1]\nwhile True: x = x + x": "MemoryError|TimeoutError",
    "x = set(range(10**9))": "MemoryError|TimeoutError",
    "x = [[0] * 10**4 for _ in range(10**6)]": "MemoryError|TimeoutError",
    "x = list(range(10**9))": "MemoryError|TimeoutError",
    "x = 'a'.join(['b' * 10**6] * 1000)": "MemoryError|TimeoutError",
    "x = 'a'.replace('a', 'b' * 10**9)": "MemoryError|TimeoutError",
    "x = ' '.ljust(10**10)": "MemoryError|TimeoutError",
    "x = 'ab' * 2**62": "MemoryError|TimeoutError|OverflowError",
    "x = bytes(10**10)": "MemoryError|TimeoutError",
    "check([1] * 2_000_000)": "MemoryError|TimeoutError|killed|check",
    # Huge integers
    "x = 2 ** 10**8": "MemoryError|TimeoutError",
    "x = 10 ** 10 ** 10": "MemoryError|TimeoutError|OverflowError",
    "x = 1 << 10**10": "MemoryError|TimeoutError|OverflowError",
    "x = 3\nwhile True: x = x * x": "MemoryError|TimeoutError|killed",
    "log(10 ** 5000)": "ValueError",
    "int('9' * 5000)": "ValueError",
    "x = " + "1" * 9000: "4300 digits",
    # Recursion and nesting
    "def f(): f()\nf()": "RecursionError",
    "f = lambda: f()\nf()": "RecursionError",
    "def f(): return [f() for _ in range(2)]\nf()": "RecursionError",
    "(" * 5000: "nested|Syntax|expected",
    "x = " + "-" * 9000 + "1": "nested",
    "x = " + "[" * 2000 + "]" * 2000: "nested",
    "x = " + "not " * 2000 + "True": "nested",
    "class A:\n def __repr__(self): return repr(self)\nrepr(A())": "RecursionError",
    # Huge output
    "while True: log('x' * 1000)": "characters were logged",
    "print('a' * 1_000_000)": "characters were logged",
    "for n in range(10**5): print(n)": "characters were logged",
    "try:\n print('a' * 1_000_000)\nexcept BaseException: pass\ncheck(True)": "characters were logged",
    # Imports, files, processes, pickles
    "import socket": "ModuleNotFoundError",
    "import subprocess": "ModuleNotFoundError",
    "import pickle": "ModuleNotFoundError",
    "import ctypes": "ModuleNotFoundError",
    "import signalbox": "ModuleNotFoundError",
    "import pydantic_monty": "ModuleNotFoundError",
    "import importlib": "ModuleNotFoundError",
    "__import__('os')": "NameError",
    "import os\nos.system('true')": "AttributeError",
    "import os\nos.listdir('/')": "PermissionError",
    "import os\nlog(os.environ)": "not supported",
    "import os\nos.urandom(9)": "not supported",
    "import os\nos._exit(0)": "AttributeError",
    "import sys\nsys.exit(0)": "AttributeError",
    "import sys\nsys.modules": "AttributeError",
    "open('/etc/passwd').read()": "PermissionError",
    "open('x', 'w').write('x')": "PermissionError",
    "from pathlib import Path\nPath('/proc/self/environ').read_text()": "PermissionError",
    "input()": "NameError",
    "breakpoint()": "NameError",
    # Attributes, scopes and frames
    "().__class__.__bases__[0].__subclasses__()": "AttributeError",
    "(lambda: 0).__globals__": "AttributeError",
    "check.__self__": "AttributeError",
    "check.__globals__['os']": "AttributeError",
    "check.__func__.__code__": "AttributeError",
    "(lambda: 0).__code__": "AttributeError",
    "globals()['__builtins__']": "NameError",
    "vars()": "NameError|TypeError",
    "try:\n 1 / 0\nexcept ZeroDivisionError as e:\n e.__traceback__.tb_frame": "AttributeError",
    "def g(): yield 1\ng().gi_frame": "AttributeError|not",
    "type('A', (), {})().__class__.__mro__": "AttributeError|TypeError",
    "getattr(log, '__glo' + 'bals__')": "AttributeError",
    # Formatting
    "'{0.__class__.__mro__}'.format(1)": "AttributeError|KeyError|Error",
    "'%1000000000d' % 1": "MemoryError|TimeoutError",
    "'{:1000000000}'.format(1)": "MemoryError|TimeoutError",
    "f'{1:1000000000}'": "MemoryError|TimeoutError",
    "'{:.1000000000f}'.format(1.5)": "Error",
    # Regular expressions
    "import re\nwhile True: re.match('(a+)+$', 'a' * 1000 + 'b')": "TimeoutError|re|Error",
    "import re\nre.match('(a|aa)+(?=c)\\\\1', 'a' * 5000)": "Error|error|tests check nothing",
    "import re\nre.compile('a{1000}{1000}{1000}')": "Error|error|tests check nothing",
    # Exceptions, also in and around check and log
    "raise SystemExit": "SystemExit",
    "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise BaseException('x' * 10**6)": "BaseException",
    "raise RecursionError": "RecursionError",
    "check()": "TypeError",
    "check(1, 2, 3)": "TypeError",
    "check(nothing=1)": "TypeError",
    "check(1)": "check takes True or False, not int",
    "check('yes')": "check takes True or False, not str",
    "check(None, None)": "check 1 failed",
    "check(check)": "check takes True or False",
    "class A:\n def __bool__(self): return True\ncheck(A())": "check takes True or False",
    "class A:\n def __str__(self): return 1\nlog(A())": "TypeError",
    "class A:\n def __eq__(self, other): raise ValueError('odd')\ncheck(A() == 1)": "ValueError: odd",
    "try: check(False, 'caught')\nexcept BaseException: pass": "caught",
    "x = [1]\nfor _ in range(40): x = [x] * 10\ncheck(x)": "check takes True or False, not list",
    "x = []\nx.append(x)\ncheck(x)": "check takes True or False",
    "del check\ncheck(True)": "NotImplementedError",
    # Not Python
    "\x00": "Syntax|null|check|Error|in the tests",
    "def": "Syntax|Expected|expected",
    "\ud800": "in the tests|sandbox",
    "await x": "Error|error|Syntax",
    "import asyncio\nasync def f():\n while True: await asyncio.sleep(0)\nasyncio.run(f())": "Error",
}


@pytest.fixture(autouse=True)
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS_MAX", 0.1)


@pytest.mark.parametrize("code", FAILS_WITH, ids=lambda code: ascii(code)[:60])
def test_a_hostile_program_ends_with_a_clear_result(code: str) -> None:
    began_at = time.monotonic()
    result = run_tests([], code)
    assert not result["success"]
    assert any(word in result["message"] for word in FAILS_WITH[code].split("|")), result["message"]
    assert len(result["message"]) <= sandbox.MESSAGE_LENGTH_MAX
    assert len(result["logs"]) <= sandbox.LOG_LENGTH_MAX
    assert time.monotonic() - began_at < sandbox.DEADLINE_SECONDS


def test_the_process_lives_on_and_serves_its_neighbours() -> None:
    """Hostile runs in three threads: a run in a fourth ends right, within a bound, and no process is left."""
    hostile = ["while True: pass", "x = 'a'\nwhile True: x += x", "def f(): f()\nf()"]
    with ThreadPoolExecutor(3) as threads:
        runs = [threads.submit(run_tests, [], code) for code in hostile * 4]
        began_at = time.monotonic()
        results = [run_tests([{"name": "Add", "code": ADD}], "check(Add(1, 2) == 3)") for _ in range(5)]
        seconds = (time.monotonic() - began_at) / 5
        assert [result["success"] for result in results] == [True] * 5
        assert seconds < 1, seconds
        assert not any(each.result()["success"] for each in runs)


def test_a_process_that_ignores_every_limit_of_the_interpreter_is_killed_at_its_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "SECONDS_MAX", 100.0)
    monkeypatch.setattr(sandbox, "DEADLINE_SECONDS", 0.2)
    assert "killed" in run_tests([], "while True: pass")["message"]
    monkeypatch.setattr(sandbox, "DEADLINE_SECONDS", 30.0)
    monkeypatch.setattr(sandbox, "CPU_SECONDS_MAX", 1)
    assert "killed" in run_tests([], "while True: pass")["message"]


OPENS = {
    "a file": "open('/etc/hostname')",
    "a connection": "socket.socket()",
    "a pipe": "os.pipe()",
    "memory": "bytearray(2**30)",
    "a file to write": "os.open('/dev/shm/x', os.O_CREAT | os.O_WRONLY)",
}


@pytest.mark.parametrize("code", OPENS.values(), ids=OPENS)
def test_a_locked_process_opens_nothing_even_if_its_code_is_native(code: str) -> None:
    """The limits hold of any process: here of an ordinary Python, which stands for an interpreter with a hole."""
    program = (
        "import os, socket, sys\nprint('ready', flush=True)\nsys.stdin.readline()\n"
        f"try: {code}\nexcept (OSError, MemoryError): print('refused')"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        lock(process.pid)
        assert process.communicate("go\n", timeout=20)[0] == "refused\n"


def test_the_limits_are_set_before_code_of_strangers_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[tuple[int, bool]] = []

    def observed(process: int) -> None:
        lock(process)
        environment = Path(f"/proc/{process}/environ").read_bytes()
        locked.append((resource.prlimit(process, resource.RLIMIT_NOFILE)[1], b"=" in environment))

    monkeypatch.setattr(sandbox, "lock", observed)
    assert run_tests([], "check(True)")["success"]
    assert locked == [(0, False)]


def test_code_that_replaces_check_passes_no_tests() -> None:
    for code in ("check = lambda *_: True", "def check(*_): return True", "global check\ncheck = print"):
        assert run_tests([{"name": "Add", "code": code}], "check(1 == 2, 'wrong')")["message"] in (
            "wrong",
            "in the code of Add: SyntaxError: 'global' declaration not allowed at module level",
        )


def test_runs_share_nothing_and_depend_on_their_code_alone() -> None:
    code = "import random, time, datetime\nlog(random.random(), time.time(), datetime.datetime.now())\ncheck(True)"
    first, second = run_tests([], code), run_tests([], code)
    assert first == second
    assert first["success"]
    run_tests([], "left = 1\ncheck(True)")
    assert "NameError" in run_tests([], "check(left == 1)")["message"]


def test_sources_run_in_their_order_and_a_message_names_the_one_that_failed() -> None:
    sources: list[sandbox.Source] = [
        {"name": "Add", "code": ADD},
        {"name": "Twice", "code": "def Twice(a):\n    return Add(a, a)"},
    ]
    result = run_tests(sources, "log('twice', Twice(2))\ncheck(Twice(2) == 4)\ncheck(Twice(3) == 5, 'three')")
    assert result == {"success": False, "message": "three", "logs": "twice 4\n", "checks": 2}
    assert run_tests([*sources, {"name": "Bad", "code": "1 / 0"}], "")["message"] == (
        "in the code of Bad: ZeroDivisionError: division by zero"
    )


def test_too_much_code_is_refused() -> None:
    with pytest.raises(BadRun):
        run_tests([], "x" * 10_001)
    with pytest.raises(BadRun):
        run_tests([{"name": "A", "code": ""}] * 101, "")


def test_a_request_has_its_runs_made_in_their_order(harness: Harness) -> None:
    runs = [{"sources": [{"name": "Add", "code": ADD}], "tests": f"check(Add(1, 2) == {n})"} for n in (3, 4)]
    answer = harness.post("social-sandbox/runs", json={"runs": runs})
    assert [each["success"] for each in answer.json["results"]] == [True, False]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "value"),
        ({"runs": [{"sources": [], "tests": 1}]}, "value"),
        ({"runs": [{"sources": [], "tests": ""}] * 21}, "several requests"),
        ({"runs": [{"sources": [], "tests": "x" * 10_001}]}, "shorten"),
    ],
)
def test_a_wrong_request_is_refused(harness: Harness, body: object, says: str) -> None:
    answer = harness.post("social-sandbox/runs", json=body)
    assert (answer.status, says in answer.json["detail"]) == (400, True)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's rules are Linux's")
def test_the_server_is_not_dumpable_and_its_processes_cannot_write_to_its_log() -> None:
    reported = """
import ctypes, os, sys
from examples.social_sandbox import main
with main._process() as session:
    session.feed_run("1")
    files = [os.readlink(f"/proc/{process}/fd/2") for process in (session.worker_pid, os.getpid())]
    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), *files)
"""
    ended = subprocess.run([sys.executable, "-c", reported], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr
    dumpable, workers, own = ended.stdout.split()
    assert (dumpable, workers) == ("0", "/dev/null")
    assert own != workers
