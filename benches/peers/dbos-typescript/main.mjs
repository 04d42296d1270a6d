// A workflow of DBOS TypeScript, whose id is our key. What it is told: benches/peers/src/lib.rs.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { DBOS } from "@dbos-inc/dbos-sdk";
import pg from "pg";

const POOL_SIZE = 32;
const CALLERS_OF_ALL = 16;
/** Workflows that succeeded, and all of them. */
const STORED = `SELECT count(*) FILTER (WHERE status = 'SUCCESS')::int AS stored, count(*)::int AS rows
  FROM dbos.workflow_status`;

let bodiesRun = 0;

const charge = DBOS.registerWorkflow(
  async (payment) => {
    bodiesRun += 1;
    return receiptFor(payment);
  },
  { name: "charge" },
);

function paymentOf(number) {
  return {
    order_id: String(number).padStart(12, "0"),
    customer: "cus_8qWyX2",
    amount_cents: 1999,
    currency: "EUR",
  };
}

function receiptFor(payment) {
  return {
    charge: `ch_${payment.order_id}`,
    amount_cents: payment.amount_cents,
    currency: payment.currency,
    note: "thank you, see you again!",
  };
}

async function call(payment) {
  const workflowID = `charge:${payment.order_id}`;
  const handle = await DBOS.startWorkflow(charge, { workflowID })(payment);
  return await handle.getResult();
}

function isRight(receipt, expected) {
  const names = Object.keys(expected);
  return (
    Object.keys(receipt).length === names.length &&
    names.every((name) => receipt[name] === expected[name])
  );
}

/** Callers that each wait for their answer before they call again. */
async function run({ callers, first, replayOf, milliseconds = Infinity, end = Infinity }) {
  let [calls, next] = [0, first];
  const began = performance.now();
  const caller = async () => {
    while (next < end && performance.now() - began < milliseconds) {
      const number = next++;
      const payment = paymentOf(replayOf === undefined ? number : number % replayOf);
      const receipt = await call(payment);
      if (!isRight(receipt, receiptFor(payment))) {
        throw new Error(`${JSON.stringify(receipt)} was answered to ${JSON.stringify(payment)}`);
      }
      calls += 1;
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  const micros = Math.round((performance.now() - began) * 1000);
  return `calls ${calls} micros ${micros} next ${next}`;
}

async function stored(url) {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(STORED);
  await client.end();
  if (rows[0].stored !== rows[0].rows) {
    throw new Error(`${rows[0].rows} workflows, of which ${rows[0].stored} succeeded`);
  }
  return `ran ${bodiesRun} stored ${rows[0].stored}`;
}

async function answer(url, line) {
  const [what, ...words] = line.split(" ");
  const [a, b, c] = words.map(Number);
  switch (what) {
    case "time":
      return run({ callers: a, milliseconds: b, first: c });
    case "replay":
      return run({ callers: a, milliseconds: b, first: 0, replayOf: c });
    case "all":
      return run({ callers: CALLERS_OF_ALL, first: a, end: b });
    case "show":
      return JSON.stringify(await call(paymentOf(a)));
    case "stored":
      return stored(url);
    default:
      throw new Error(`"${line}" makes no sense`);
  }
}

/** Does what it is told, a line at a time, until the input ends. */
async function serve(url) {
  const lines = createInterface({ input: process.stdin });
  let busy = false;
  lines.on("line", async (line) => {
    busy = true;
    try {
      console.log(await answer(url, line));
    } catch (error) {
      console.error(error);
      process.exit(1);
    }
    busy = false;
  });
  console.log("ready");
  await new Promise((resolve) => lines.on("close", resolve));
  if (busy) {
    process.exit(1);
  }
}

const [url] = process.argv.slice(2);
if (url === "--version") {
  const file = new URL("node_modules/@dbos-inc/dbos-sdk/package.json", import.meta.url);
  const { version } = JSON.parse(readFileSync(file, "utf8"));
  console.log(
    `@dbos-inc/dbos-sdk ${version}, its pool of ${POOL_SIZE} connections; Node.js ${process.version}`,
  );
} else {
  DBOS.setConfig({
    name: "bench",
    systemDatabaseUrl: url,
    systemDatabasePoolSize: POOL_SIZE,
    // Its default keeps half of the pool from those who wait for results.
    systemDatabasePollingConcurrency: POOL_SIZE,
    logLevel: "error",
  });
  await DBOS.launch();
  await serve(url);
  await DBOS.shutdown();
  process.exit(0);
}
