"""What the bench says to a peer and what the peer answers: benches/peers/src/lib.rs has the table.

Callers are threads that each wait for their answer before they call again.
"""

import json
import os
import queue
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

CALLERS_OF_ALL = 16


def payment_of(number):
    return {
        "order_id": f"{number:012}",
        "customer": "cus_8qWyX2",
        "amount_cents": 1999,
        "currency": "EUR",
    }


def receipt_for(payment):
    return {
        "charge": f"ch_{payment['order_id']}",
        "amount_cents": payment["amount_cents"],
        "currency": payment["currency"],
        "note": "thank you, see you again!",
    }


class Bodies:
    """Counts how often a body ran, in whichever thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self.ran = 0

    def count(self):
        with self._lock:
            self.ran += 1


class Numbers:
    """Which operation is next, for whichever thread asks."""

    def __init__(self, first, end):
        self._lock = threading.Lock()
        self._end = end
        self.next = first

    def take(self):
        with self._lock:
            if self._end is not None and self.next >= self._end:
                return None
            self.next += 1
            return self.next - 1


def _caller(call, numbers, replay_of, over):
    """How many calls it made."""
    calls = 0
    while (number := numbers.take()) is not None:
        payment = payment_of(number if replay_of is None else number % replay_of)
        receipt = call(payment)
        if receipt != receipt_for(payment):
            raise ValueError(f"{receipt} was answered to {payment}")
        calls += 1
        if over is not None and time.perf_counter() >= over:
            break
    return calls


def _run(call, callers, first, replay_of=None, milliseconds=None, end=None):
    numbers = Numbers(first, end)
    began = time.perf_counter()
    over = None if milliseconds is None else began + milliseconds / 1000
    with ThreadPoolExecutor(callers) as threads:
        running = [
            threads.submit(_caller, call, numbers, replay_of, over) for _ in range(callers)
        ]
        calls = sum(caller.result() for caller in running)
    micros = round((time.perf_counter() - began) * 1e6)
    return f"calls {calls} micros {micros} next {numbers.next}"


def _answer(line, call, bodies, stored):
    what, *words = line.split(" ")
    numbers = [int(word) for word in words]
    match what, numbers:
        case "time", [callers, milliseconds, first]:
            return _run(call, callers, first, milliseconds=milliseconds)
        case "replay", [callers, milliseconds, of]:
            return _run(call, callers, 0, replay_of=of, milliseconds=milliseconds)
        case "all", [first, end]:
            return _run(call, CALLERS_OF_ALL, first, end=end)
        case "show", [number]:
            return json.dumps(call(payment_of(number)))
        case "stored", []:
            return f"ran {bodies.ran} stored {stored()}"
        case _:
            raise ValueError(f"{line!r} makes no sense")


def serve(call, bodies, stored):
    """Does what it is told until the input ends; in the midst of something, that ends the process."""
    lines = queue.SimpleQueue()
    busy = threading.Event()

    def read():
        for line in sys.stdin:
            lines.put(line.rstrip("\n"))
        if busy.is_set():
            os._exit(1)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    print("ready", flush=True)
    while (line := lines.get()) is not None:
        busy.set()
        answer = _answer(line, call, bodies, stored)
        busy.clear()
        print(answer, flush=True)
