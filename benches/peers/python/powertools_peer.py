"""A function made idempotent by AWS Lambda Powertools on a Redis server with its default configuration."""

import json
import os
import socket
import subprocess
import sys
import warnings
from importlib.metadata import version

import redis
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer

import line

SERVER = "redis-server"
LARGEST_SCAN = 1000


def start(directory):
    """A server that ends with this process, and a client."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    # The kernel ends it when this process is no more.
    command = ["setpriv", "--pdeathsig", "KILL", "--", SERVER]
    command += ["--bind", "127.0.0.1", "--port", str(port), "--dir", directory]
    with open(os.path.join(directory, "redis.log"), "wb") as log:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    client = redis.Redis(host="127.0.0.1", port=port, decode_responses=True)
    while True:
        try:
            client.ping()
            return server, client
        except redis.exceptions.ConnectionError:
            if server.poll() is not None:
                raise


class Context:
    """What Lambda gives to a function: how long it may still run."""

    def get_remaining_time_in_millis(self):
        return 3000


def idempotent_charge(client, bodies):
    # The name that the documentation uses stands for a class that will have another name.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        store = CachePersistenceLayer(client=client)
    config = IdempotencyConfig(event_key_jmespath="order_id")
    config.register_lambda_context(Context())

    @idempotent_function(
        data_keyword_argument="payment", config=config, persistence_store=store
    )
    def charge(payment):
        bodies.count()
        return line.receipt_for(payment)

    return lambda payment: charge(payment=payment)


def stored(client):
    """How many records are complete; fails if one is not, or holds what no payment has."""
    complete = 0
    keys = []

    def look():
        nonlocal complete
        for text in client.mget(keys) if keys else []:
            record = json.loads(text)
            receipt = json.loads(record["data"])
            payment = line.payment_of(int(receipt["charge"].removeprefix("ch_")))
            if record["status"] != "COMPLETED" or receipt != line.receipt_for(payment):
                raise ValueError(f"{record} is stored")
            complete += 1
        keys.clear()

    for key in client.scan_iter(count=LARGEST_SCAN):
        keys.append(key)
        if len(keys) == LARGEST_SCAN:
            look()
    look()
    return complete


def main():
    if sys.argv[1] == "--version":
        said = subprocess.run([SERVER, "--version"], check=True, capture_output=True, text=True)
        server = said.stdout.split(" sha")[0]
        client = f"redis {version('redis')}"
        python = sys.version.split()[0]
        powertools = f"aws-lambda-powertools {version('aws-lambda-powertools')}"
        print(f"{powertools}, {client}, Python {python}; {server}, its default configuration")
        return
    server, client = start(sys.argv[2])
    try:
        bodies = line.Bodies()
        line.serve(idempotent_charge(client, bodies), bodies, lambda: stored(client))
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    main()
