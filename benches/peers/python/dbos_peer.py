"""A workflow of DBOS Python, whose id is our key."""

import os
import sys
from importlib.metadata import version

import sqlalchemy
from dbos import DBOS, SetWorkflowID

import line

POOL_SIZE = 32
BODIES = line.Bodies()
# Workflows that succeeded, and all of them.
STORED = """SELECT count(*) FILTER (WHERE status = 'SUCCESS'), count(*) FROM dbos.workflow_status"""


@DBOS.workflow()
def charge(payment):
    BODIES.count()
    return line.receipt_for(payment)


def call(payment):
    with SetWorkflowID(f"charge:{payment['order_id']}"):
        return charge(payment)


def stored(engine):
    with engine.connect() as session:
        stored, rows = session.execute(sqlalchemy.text(STORED)).one()
    if stored != rows:
        raise ValueError(f"{rows} workflows, of which {stored} succeeded")
    return stored


def main():
    url = sys.argv[1]
    if url == "--version":
        python = sys.version.split()[0]
        print(f"dbos {version('dbos')}, its pool of {POOL_SIZE} connections; Python {python}")
        return
    url = url.replace("postgres://", "postgresql://", 1)
    DBOS(
        config={
            "name": "bench",
            "system_database_url": url,
            "sys_db_pool_size": POOL_SIZE,
            # Its default keeps half of the pool from those who wait for results.
            "sys_db_polling_concurrency": POOL_SIZE,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    engine = sqlalchemy.create_engine(sqlalchemy.make_url(url).set(drivername="postgresql+psycopg"))
    line.serve(call, BODIES, lambda: stored(engine))
    engine.dispose()
    DBOS.destroy()


if __name__ == "__main__":
    main()
    # Threads of its own may go on.
    sys.stdout.flush()
    os._exit(0)
