// The steps of a client, by node-postgres. Prints `ok STEP` after each; an exception ends it with exit code 1.

const assert = require("node:assert/strict");
const { Readable } = require("node:stream");
const { pipeline } = require("node:stream/promises");
const { Client, Pool } = require("pg");
const Cursor = require("pg-cursor");
const { from: copyFrom, to: copyTo } = require("pg-copy-streams");

const url = process.env.DATABASE_URL;
const client = new Client({ connectionString: url });

const steps = {
  async connect() {
    await client.connect();
    assert.equal((await client.query("select 1 as one")).rows[0].one, 1);
  },

  async create() {
    await client.query("drop table if exists client_node");
    await client.query("create table client_node (id int primary key, v int not null, t text, n numeric, at timestamptz, j jsonb)");
    await client.query("select create_distributed_table('client_node', 'id')");
  },

  async insert() {
    for (let i = 1; i <= 40; i++) {
      await client.query("insert into client_node (id, v, t) values ($1, $2, $3)", [i, i % 10, `t${i}`]);
    }
    const made = await client.query("insert into client_node (id, v) values (41, 1), (42, 2), (43, 3) returning id");
    assert.equal(made.rowCount, 3);
    assert.deepEqual(made.rows.map((row) => row.id).sort(), [41, 42, 43]);
  },

  async prepared() {
    for (let i = 1; i <= 40; i++) {
      const found = await client.query({ name: "by_key", text: "select t from client_node where id = $1", values: [i] });
      assert.deepEqual(found.rows, [{ t: `t${i}` }]);
    }
    const binary = await client.query({ text: "select id, v from client_node where id = $1", values: [7], binary: true });
    assert.deepEqual(binary.rows, [{ id: 7, v: 7 }]);
  },

  async aggregates() {
    const found = await client.query("select count(*), sum(v), max(t) from client_node");
    assert.deepEqual(found.rows, [{ count: "43", sum: "186", max: "t9" }]);
    const groups = await client.query("select v, count(*)::int as n from client_node where id = any($1) group by v order by v", [[1, 2, 11, 12]]);
    assert.deepEqual(groups.rows, [{ v: 1, n: 2 }, { v: 2, n: 2 }]);
  },

  async types() {
    const at = new Date("2024-02-29T12:00:00Z");
    await client.query("insert into client_node (id, v, n, at, j) values (100, 0, $1, $2, $3)", ["12345.678", at, { a: [1, null] }]);
    const found = await client.query("select n, at, j from client_node where id = 100");
    assert.deepEqual(found.rows, [{ n: "12345.678", at, j: { a: [1, null] } }]);
    assert.deepEqual(found.fields.map((field) => field.dataTypeID), [1700, 1184, 3802]);
  },

  async transactions() {
    await client.query("begin");
    await client.query("update client_node set v = 50 where id in (1, 2, 3, 4)");
    await client.query("commit");
    await client.query("begin");
    await client.query("delete from client_node");
    await client.query("rollback");
    const found = await client.query("select count(*)::int as n, (count(*) filter (where v = 50))::int as changed from client_node");
    assert.deepEqual(found.rows, [{ n: 44, changed: 4 }]);
  },

  // Queries queued on one client, and many clients of a pool at once.
  async batch() {
    const ids = Array.from({ length: 30 }, (_, i) => 200 + i);
    await Promise.all(ids.map((i) => client.query("insert into client_node (id, v) values ($1, $2)", [i, i])));
    const pool = new Pool({ connectionString: url, max: 8 });
    const found = await Promise.all(ids.map((i) => pool.query("select v from client_node where id = $1", [i])));
    await pool.end();
    assert.deepEqual(found.map((result) => result.rows[0].v), ids);
  },

  async copy() {
    const lines = Array.from({ length: 1000 }, (_, i) => `${1000 + i}\t${i}\tcopied ${i}\n`);
    await pipeline(Readable.from(lines), client.query(copyFrom("copy client_node (id, v, t) from stdin")));
    let out = "";
    for await (const part of client.query(copyTo("copy (select id from client_node where id >= 1000) to stdout"))) out += part;
    assert.equal(out.trim().split("\n").length, 1000);
    assert.deepEqual((await client.query("select t from client_node where id = 1777")).rows, [{ t: "copied 777" }]);
  },

  async cursor() {
    const cursor = client.query(new Cursor("select id from client_node where id >= $1 order by id", [1000]));
    const seen = [];
    for (let rows = await cursor.read(70); rows.length > 0; rows = await cursor.read(70)) seen.push(...rows.map((row) => row.id));
    await cursor.close();
    assert.deepEqual(seen, Array.from({ length: 1000 }, (_, i) => 1000 + i));
  },

  async errors() {
    const expected = {
      "insert into client_node (id, v) values (1, 1)": "23505",
      "insert into client_node (id, v) values (1, null)": "23502",
      "selec 1": "42601",
      "select * from nosuch": "42P01",
      "select 1 / (v - v) from client_node": "22012",
    };
    for (const [sql, code] of Object.entries(expected)) {
      await assert.rejects(client.query(sql), { code });
      assert.equal((await client.query("select 1 as one")).rows[0].one, 1);
    }
  },
};

async function main() {
  for (const [name, step] of Object.entries(steps)) {
    await step();
    console.log(`ok ${name}`);
  }
  await client.query("drop table client_node");
  await client.end();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
