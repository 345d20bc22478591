//! Utility statements on a real herd: what all nodes have afterwards, or that none has anything.

mod server;

use std::sync::Arc;

use bytes::BytesMut;
use exec::{Answer, Client, CopyInput, ExecError, Herd, HerdConfig, Roles, Work};
use pool::{ClientLogin, Conn, Login, OwnConns, PoolConfig, Pools, Secret, Settings};
use server::{Server, distribute, reference};
use txn::Transaction;

/// Keeps what it is sent.
#[derive(Default)]
struct Kept(BytesMut);

impl Client for Kept {
    fn tell(&mut self, answer: Answer<'_>) {
        answer.put(&mut self.0);
    }

    fn waiting(&self) -> usize {
        self.0.len()
    }

    async fn flush(&mut self) -> Result<(), ExecError> {
        Ok(())
    }

    async fn copy_input(&mut self) -> Result<CopyInput, ExecError> {
        Err(ExecError::lost("no COPY here"))
    }
}

struct Session {
    herd: Arc<Herd>,
    login: ClientLogin,
    settings: Settings,
    transaction: Transaction,
    client: Kept,
    pin: exec::Pin,
}

impl Session {
    async fn new(server: &Server, user: &str) -> Session {
        let admin = Login::new("postgres", Secret::None);
        let key = catalog::schema::read_key(&mut server.connect("n1").await).await.unwrap();
        let seal = txn::Seal::from_hex(&key.seal).unwrap();
        let (plan_bytes, row_bytes_per_session, row_bytes) = (1 << 20, 1 << 20, 1 << 20);
        let (home, stores) = (server.target("n1"), vec![]);
        let disk = Arc::new(exec::Disk::new(std::env::temp_dir(), 1 << 30, 1 << 30));
        let config = HerdConfig { home, plan_bytes, row_bytes_per_session, row_bytes, disk, stores, seal };
        let snapshot = catalog::load(&mut server.connect("n1").await).await.unwrap();
        let own = OwnConns::new(&PoolConfig::default(), admin);
        let roles = Arc::new(Roles::new(own.clone(), config.home.clone(), false));
        let pools = Pools::new(PoolConfig::default(), Some(roles.clone()));
        let login = pools.admit(&roles.find(user).await.unwrap().unwrap().word, Secret::None);
        let herd = Arc::new(Herd::new(config, own, roles, pools, snapshot, rand::random()));
        Session {
            herd,
            login,
            settings: Settings::default(),
            transaction: Transaction::default(),
            client: Kept::default(),
            pin: exec::Pin::Free,
        }
    }

    async fn ddl(&mut self, sql: &str) -> Result<String, ExecError> {
        let epoch = self.herd.epoch.load_full();
        let who = (&self.login, &self.settings);
        let (transaction, client, pin) = (&mut self.transaction, &mut self.client, &mut self.pin);
        let mut work = Work::plain(&self.herd, &epoch, who, transaction, client, pin, &self.herd.memory);
        let statement = sql::parse(sql, true).unwrap().remove(0);
        let path = ["pg_catalog".to_string(), "public".to_string()];
        let done = work.ddl(&statement, sql, &path, &[]).await.map(|f| f.expect("a utility statement").tag);
        if done.is_err() && !self.transaction.is_block() {
            self.transaction.rollback().await;
        }
        done
    }

    /// A statement by itself, as a client in autocommit sends it.
    async fn run(&mut self, sql: &str) -> Result<String, ExecError> {
        let tag = self.ddl(sql).await?;
        self.commit().await?;
        Ok(tag)
    }

    async fn commit(&mut self) -> Result<(), ExecError> {
        if self.transaction.is_active() {
            let (identity, number) = (self.herd.identity(), self.herd.next_transaction());
            self.transaction.commit(&identity, number, true).await.map_err(|e| ExecError::internal(e.to_string()))?;
        }
        self.herd.refresh(None).await
    }

    async fn good(&mut self, statements: &[&str]) {
        for sql in statements {
            self.run(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        }
    }

    async fn code(&mut self, sql: &str) -> String {
        self.run(sql).await.expect_err(sql).code()
    }
}

/// The one value of a query on each node.
async fn each(nodes: &mut [Conn], sql: &str) -> Vec<String> {
    let mut values = Vec::new();
    for node in nodes {
        let rows = node.simple(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        values.push(rows[0][0].clone().unwrap_or_default());
    }
    values
}

async fn expect(nodes: &mut [Conn], sql: &str, want: &str) {
    assert_eq!(each(nodes, sql).await, vec![want; nodes.len()], "{sql}");
}

/// `orders` and `items` distributed, `countries` everywhere, `notes` local; owned by alice, who may not do more than that.
async fn herd(server: &Server) -> (Vec<Conn>, Session) {
    let mut nodes = server.herd().await;
    nodes[0].simple("CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN").await.unwrap();
    for node in &mut nodes {
        node.simple("GRANT CREATE ON SCHEMA public TO alice; GRANT CREATE ON DATABASE n1 TO alice; GRANT CREATE ON DATABASE n2 TO alice; GRANT CREATE ON DATABASE n3 TO alice").await.unwrap();
    }
    let tables = "SET SESSION AUTHORIZATION alice; CREATE TABLE orders (id bigint PRIMARY KEY, note text); CREATE TABLE items (order_id bigint, no int, PRIMARY KEY (order_id, no)); \
                  CREATE TABLE countries (code text PRIMARY KEY); CREATE TABLE notes (id bigint PRIMARY KEY); RESET SESSION AUTHORIZATION";
    nodes[0].simple(tables).await.unwrap();
    distribute(&mut nodes, "orders", "id").await;
    distribute(&mut nodes, "items", "order_id").await;
    reference(&mut nodes, "countries").await;
    let session = Session::new(server, "alice").await;
    (nodes, session)
}

#[tokio::test]
async fn every_node_or_none() {
    let Some(server) = Server::start("all") else { return };
    let (mut nodes, mut alice) = herd(&server).await;
    let n = &mut nodes[..];

    alice
        .good(&[
            "ALTER TABLE orders ADD COLUMN seen timestamptz DEFAULT now()",
            "ALTER TABLE orders ADD COLUMN amount numeric DEFAULT 0",
        ])
        .await;
    expect(
        n,
        "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'orders'::regclass ORDER BY adnum LIMIT 1",
        "now()",
    )
    .await;
    let epochs = each(n, "SELECT epoch FROM herd.epoch").await;
    assert!(epochs.iter().all(|e| *e == epochs[0]), "{epochs:?}");

    // Node 3 has an obstacle: nobody gets the column, and the error says where.
    n[2].simple("ALTER TABLE orders ADD COLUMN hand int").await.unwrap();
    let error = alice.run("ALTER TABLE orders ADD COLUMN hand int").await.unwrap_err().to_fields();
    assert_eq!((error.code(), error.get(b'W')), ("42701", Some("on node \"n3\"")));
    assert_eq!(
        each(n, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname = 'hand'").await,
        ["0", "0", "1"]
    );
    n[2].simple("ALTER TABLE orders DROP COLUMN hand").await.unwrap();
    assert_eq!(each(&mut n[..1], "SELECT count(*) FROM pg_prepared_xacts").await, ["0"]);

    // A transaction of the client's own.
    alice.transaction.begin("BEGIN", true);
    alice.ddl("CREATE TYPE mood AS ENUM ('sad')").await.unwrap();
    alice.ddl("ALTER TABLE items ADD COLUMN m mood").await.unwrap();
    alice.transaction.rollback().await;
    expect(n, "SELECT count(*) FROM pg_type WHERE typname = 'mood'", "0").await;
    alice.transaction.begin("BEGIN", true);
    alice.ddl("CREATE TYPE mood AS ENUM ('sad')").await.unwrap();
    alice.ddl("ALTER TABLE items ADD COLUMN m mood").await.unwrap();
    alice.commit().await.unwrap();
    alice
        .good(&[
            "ALTER TYPE mood ADD VALUE 'happy'",
            "CREATE FUNCTION f(a int) RETURNS bigint LANGUAGE sql AS 'SELECT count(*) FROM notes'",
        ])
        .await;
    expect(n, "SELECT count(*) FROM pg_enum", "2").await;
    expect(n, "SELECT count(*) FROM pg_proc WHERE proname = 'f'", "1").await;

    alice
        .good(&[
            "CREATE SEQUENCE numbers",
            "ALTER TABLE orders ADD COLUMN n bigserial",
            "CREATE VIEW v AS SELECT id FROM orders",
            "CREATE SCHEMA shop",
        ])
        .await;
    assert_eq!(n[1].simple("SELECT nextval('numbers')").await.unwrap_err().to_fields().code(), "2200H");
    assert_eq!(n[1].simple("SELECT nextval('orders_n_seq')").await.unwrap_err().to_fields().code(), "2200H");
    assert_eq!(n[0].simple("SELECT nextval('orders_n_seq')").await.unwrap()[0][0].as_deref(), Some("1"));
    n[0].simple("INSERT INTO orders (id) SELECT i FROM generate_series(1, 100) i WHERE satisfies_hash_partition('orders'::regclass, 4, 0, i::bigint)").await.unwrap();
    assert_eq!(alice.code("ALTER TABLE orders ADD COLUMN n2 serial").await, "0A000");

    alice
        .good(&[
            "GRANT SELECT ON orders, notes, v TO bob",
            "COMMENT ON TABLE orders IS 'x'",
            "ALTER TABLE orders SET (fillfactor = 70)",
        ])
        .await;
    expect(n, "SELECT bool_and(has_table_privilege('bob', c.oid, 'SELECT')) FROM pg_class c WHERE relname ~ '^orders(_\\d)?$' OR relname = 'v'", "t").await;
    expect(n, "SELECT count(*) FILTER (WHERE reloptions IS NULL) FROM pg_class WHERE relname ~ '^orders_\\d$'", "0")
        .await;
    alice
        .good(&[
            "TRUNCATE orders, notes RESTART IDENTITY",
            "VACUUM orders, notes",
            "ANALYZE orders",
            "LOCK TABLE orders, notes",
            "ALTER TABLE items ADD FOREIGN KEY (order_id) REFERENCES orders",
        ])
        .await;
    expect(n, "SELECT count(*) FROM orders", "0").await;
    assert_eq!(alice.run("REINDEX TABLE orders").await.unwrap(), "REINDEX");
}

#[tokio::test]
async fn indexes() {
    let Some(server) = Server::start("index") else { return };
    let (mut nodes, mut alice) = herd(&server).await;
    let n = &mut nodes[..];
    n[0].simple("CREATE TABLE orders_note_idx (a int)").await.unwrap();
    alice
        .good(&[
            "CREATE INDEX ON orders (note)",
            "CREATE UNIQUE INDEX i ON orders (note, id)",
            "CREATE INDEX CONCURRENTLY c ON orders (note DESC)",
            "CREATE INDEX CONCURRENTLY cc ON countries (code)",
        ])
        .await;
    // The name that is free on home is everybody's.
    expect(n, "SELECT count(*) FROM pg_index WHERE indexrelid IN ('orders_note_idx1'::regclass, 'i'::regclass, 'c'::regclass, 'cc'::regclass) AND indisvalid", "4").await;
    expect(n, "SELECT count(*) FROM pg_inherits i WHERE inhparent = 'orders'::regclass AND NOT EXISTS (SELECT FROM pg_index x JOIN pg_inherits h ON h.inhrelid = x.indexrelid WHERE x.indrelid = i.inhrelid AND h.inhparent = 'c'::regclass)", "0").await;
    alice
        .good(&[
            "CREATE INDEX CONCURRENTLY IF NOT EXISTS c ON orders (note)",
            "ALTER INDEX c SET (fillfactor = 60)",
            "ALTER INDEX c RENAME TO d",
            "REINDEX INDEX d",
        ])
        .await;
    assert_eq!(alice.code("CREATE INDEX CONCURRENTLY d ON orders (note)").await, "42P07");
    expect(n, "SELECT to_regclass('d') IS NOT NULL", "t").await;

    // A build that fails on one node is undone everywhere.
    n[2].simple("ALTER TABLE orders ADD CHECK (note <> 'x')").await.unwrap();
    n[2].simple("INSERT INTO orders SELECT i, '1/0' FROM generate_series(1, 100) i WHERE satisfies_hash_partition('orders'::regclass, 4, 2, i::bigint)").await.unwrap();
    assert_eq!(alice.code("CREATE INDEX CONCURRENTLY bad ON orders ((1 / (length(note) - 3)))").await, "22012");
    expect(n, "SELECT count(*) FROM pg_class WHERE relname LIKE '%bad%'", "0").await;

    alice.good(&["DROP INDEX d, i"]).await;
    expect(n, "SELECT coalesce(to_regclass('d'), to_regclass('i')) IS NULL", "t").await;
    assert_eq!(alice.code("DROP INDEX CONCURRENTLY orders_note_idx1, cc").await, "0A000");
    assert_eq!(alice.code("DROP INDEX CONCURRENTLY orders_note_idx1 CASCADE").await, "0A000");
    alice.good(&["DROP INDEX CONCURRENTLY cc"]).await;
    expect(n, "SELECT to_regclass('cc') IS NULL", "t").await;
    alice.good(&["ALTER TABLE items ADD UNIQUE (no, order_id)"]).await;
    n.iter_mut().next().unwrap().simple("GRANT bob TO alice; GRANT CREATE ON SCHEMA public TO bob").await.unwrap();
    for node in &mut n[1..] {
        node.simple("GRANT CREATE ON SCHEMA public TO bob").await.unwrap();
    }
    alice.good(&["ALTER TABLE orders OWNER TO bob"]).await;
    expect(n, "SELECT bool_and(relowner = 'bob'::regrole) FROM pg_class WHERE relname ~ '^orders(_\\d)?$'", "t").await;
    alice.transaction.begin("BEGIN", true);
    assert_eq!(alice.ddl("VACUUM").await.unwrap_err().code(), "25001");
    alice.transaction.rollback().await;
}

#[tokio::test]
async fn the_catalog_follows() {
    let Some(server) = Server::start("catalog") else { return };
    let (mut nodes, mut alice) = herd(&server).await;
    let n = &mut nodes[..];
    let tables = "SELECT coalesce(string_agg(schema || '.' || name, ' ' ORDER BY name), '') FROM herd.relation";
    let known = async |n: &mut [Conn]| each(&mut n[..1], tables).await.remove(0);

    alice
        .good(&["CREATE SCHEMA shop", "ALTER TABLE orders RENAME TO purchases", "ALTER TABLE items SET SCHEMA shop"])
        .await;
    assert_eq!(known(n).await, "public.countries shop.items public.purchases");
    expect(n, "SELECT to_regclass('shop.items') IS NOT NULL AND to_regclass('purchases') IS NOT NULL", "t").await;
    alice.good(&["ALTER SCHEMA shop RENAME TO store"]).await;
    assert_eq!(known(n).await, "public.countries store.items public.purchases");
    alice.good(&["DROP SCHEMA store CASCADE", "DROP TABLE notes, countries"]).await;
    assert_eq!(known(n).await, "public.purchases");
    expect(n, "SELECT to_regclass('countries') IS NULL AND to_regnamespace('store') IS NULL", "t").await;
    alice.good(&["DROP TABLE purchases"]).await;
    // Its group goes with the next change of a table's kind.
    let groups = "SELECT count(*) FROM herd.colocation";
    assert_eq!(each(&mut n[..1], groups).await, ["1"]);
    n[0].simple("SELECT herd.forget_groups()").await.unwrap();
    assert_eq!(each(&mut n[..1], groups).await, ["0"]);
    // Nobody can take a table out of the catalog, or give it another name, that is still there.
    alice.good(&["CREATE TABLE again (id bigint)"]).await;
    distribute(n, "again", "id").await;
    n[0].simple("SET SESSION AUTHORIZATION bob; SELECT herd.forget_dropped()").await.unwrap();
    assert!(n[0].simple("SELECT herd.follow_rename('public', 'again', 'public', 'elsewhere')").await.is_err());
    n[0].simple("RESET SESSION AUTHORIZATION").await.unwrap();
    assert_eq!(known(n).await, "public.again");
}

#[tokio::test]
async fn tables_from_queries_and_roles() {
    let Some(server) = Server::start("roles") else { return };
    let (mut nodes, mut alice) = herd(&server).await;
    let n = &mut nodes[..];
    for (i, node) in n.iter_mut().enumerate() {
        let of_node = "SELECT d.i, 'n' FROM generate_series(1, 60) d (i) WHERE EXISTS (SELECT FROM pg_inherits h JOIN pg_class c ON c.oid = h.inhrelid WHERE h.inhparent = 'orders'::regclass \
                       AND satisfies_hash_partition('orders'::regclass, 4, right(c.relname, 1)::int, d.i::bigint))";
        node.simple(&format!("INSERT INTO orders {of_node}")).await.unwrap_or_else(|e| panic!("node {i}: {e}"));
    }
    assert_eq!(
        alice
            .run("CREATE TABLE copied AS SELECT id AS number, upper(note) AS u FROM orders WHERE id <= 50")
            .await
            .unwrap(),
        "SELECT 50"
    );
    assert_eq!(alice.run("SELECT id INTO more FROM orders").await.unwrap(), "SELECT 60");
    assert_eq!(each(&mut n[..1], "SELECT count(*) || max(u) || sum(number) FROM copied").await, ["50N1275"]);
    assert_eq!(each(&mut n[1..], "SELECT to_regclass('copied') IS NULL").await, ["t", "t"]);
    assert_eq!(alice.code("CREATE TABLE copied AS SELECT id FROM orders").await, "42P07");

    // A snapshot that has fallen behind is noticed: another router has distributed the table meanwhile.
    alice.good(&["CREATE TABLE late (id bigint)"]).await;
    distribute(n, "late", "id").await;
    alice.good(&["ALTER TABLE late ADD COLUMN x int"]).await;
    expect(n, "SELECT count(*) FROM pg_attribute WHERE attrelid = 'late'::regclass AND attname = 'x'", "1").await;

    let mut admin = Session::new(&server, "postgres").await;
    admin
        .good(&[
            "CREATE ROLE carol LOGIN PASSWORD 'secret'",
            "GRANT bob TO carol",
            "ALTER DATABASE n1 SET work_mem = '1MB'",
        ])
        .await;
    let stored = each(&mut n[..1], "SELECT rolpassword FROM pg_authid WHERE rolname = 'carol'").await.remove(0);
    let verifier = wire::scram::Verifier::parse(&stored).unwrap();
    assert_eq!(verifier.iterations(), 4096);
    assert_eq!(each(&mut n[..1], "SELECT count(*) FROM pg_db_role_setting").await, ["3"]);
    admin.good(&["ALTER TABLE orders OWNER TO carol", "DROP OWNED BY carol", "DROP ROLE carol"]).await;
    expect(n, "SELECT to_regclass('orders') IS NULL", "t").await;
    assert_eq!(each(&mut n[..1], "SELECT count(*) FROM herd.relation WHERE name = 'orders'").await, ["0"]);
}
