//! A `herd-column` of a test, asked as a router asks it.

use std::fs;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pool::{Conn, Login, NodeTarget, PoolError, Secret};

use crate::server::Server;

pub struct Store {
    child: Option<Child>,
    pub port: u16,
    dir: tempfile::TempDir,
}

/// A copy as the tests ask for it.
#[derive(Clone)]
pub struct Asked {
    pub id: i64,
    pub table: String,
    pub shards: String,
    pub wait_ms: u64,
    pub stale_ms: Option<u64>,
}

impl Store {
    pub fn start(server: &Server, more: &str) -> Store {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let dir = tempfile::tempdir().unwrap();
        let config = format!(
            "[column]\nnode = \"host={} user=postgres\"\ndirectory = \"{}\"\nlisten = \"127.0.0.1:{port}\"\n{more}\n",
            server.dir.display(),
            dir.path().join("data").display()
        );
        fs::write(dir.path().join("column.toml"), config).unwrap();
        let mut store = Store { child: None, port, dir };
        store.begin();
        store
    }

    pub fn begin(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        let built = env!("CARGO_BIN_EXE_herd-column").into();
        // What is told by a signal where files must not grow is told as an error then, as that of a full disk.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""]);
        command.arg(std::env::var_os("HERD_COLUMN_BIN").unwrap_or(built));
        command.arg("--config").arg(self.dir.path().join("column.toml")).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        let began = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "it does not listen\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// As kill -9.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Its files don't grow beyond so many bytes; `None`: as they like.
    pub fn limit_files(&self, bytes: Option<u64>) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let size = bytes.map_or("unlimited".to_string(), |bytes| bytes.to_string());
        assert!(Command::new("prlimit").args(["--pid", &pid, &format!("--fsize={size}:")]).status().unwrap().success());
    }

    /// Of the program since it began, as Linux counts it in hundredths.
    pub fn processor_seconds(&self) -> f64 {
        let pid = self.child.as_ref().unwrap().id();
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let behind_name = stat.rsplit(')').next().unwrap_or_default();
        let fields: Vec<f64> = behind_name.split_whitespace().map(|field| field.parse().unwrap_or(0.0)).collect();
        fields.get(11..13).map_or(0.0, |both| both.iter().sum::<f64>() / 100.0)
    }

    /// Which tables are in its file, while it does not run.
    pub fn tables(&self) -> Vec<String> {
        let conn = duckdb::Connection::open(self.dir.path().join("data/column.duckdb")).unwrap();
        let sql = "SELECT table_name FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY 1";
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    /// What of its file is in use, in megabytes, while it does not run.
    pub fn used_megabytes(&self) -> u64 {
        let conn = duckdb::Connection::open(self.dir.path().join("data/column.duckdb")).unwrap();
        conn.execute_batch("CHECKPOINT").unwrap();
        let sql = "SELECT (used_blocks * block_size // 1048576)::UBIGINT FROM pragma_database_size()";
        conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub async fn login(&self, user: &str, secret: Secret) -> Result<Conn, PoolError> {
        login(self.port, user, secret).await
    }

    pub async fn connect(&self) -> Conn {
        self.login("herd", Secret::None).await.unwrap_or_else(|e| panic!("{e}\n{}", self.log()))
    }

    /// Until this copy is in this state.
    pub async fn until(&self, id: i64, state: &str) {
        self.until_within(id, state, 60).await;
    }

    /// Until there is no such copy.
    pub async fn until_gone(&self, id: i64) {
        let mut conn = self.connect().await;
        let began = Instant::now();
        loop {
            let rows = conn.simple("SHOW copies").await.unwrap_or_else(|e| panic!("{e}\n{}", self.log()));
            if rows.iter().all(|row| row[0].as_deref() != Some(&id.to_string())) {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "it does not go: {rows:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn until_within(&self, id: i64, state: &str, seconds: u64) {
        let mut conn = self.connect().await;
        let began = Instant::now();
        loop {
            let rows = conn.simple("SHOW copies").await.unwrap_or_else(|e| panic!("{e}\n{}", self.log()));
            if rows.iter().any(|row| row[0].as_deref() == Some(&id.to_string()) && row[2].as_deref() == Some(state)) {
                return;
            }
            assert!(
                began.elapsed() < Duration::from_secs(seconds),
                "it does not get {state}: {rows:?}\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("{}", self.log());
        }
    }
}

impl Asked {
    /// Lists a copy of all columns of a table of schema public, and waits until it is there.
    pub async fn list(server: &Server, store: &Store, id: i64, table: &str) -> Asked {
        let columns = format!(
            "(SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped)"
        );
        server
            .run(&format!(
                "INSERT INTO herd.column_copy VALUES ({id}, '{table}'::regclass, {columns}); NOTIFY herd_column"
            ))
            .await;
        store.until(id, "ready").await;
        Asked::new(server, id, table).await
    }

    pub async fn new(server: &Server, id: i64, table: &str) -> Asked {
        let shards = format!(
            "SELECT md5(string_agg(c.relname::text, ',' ORDER BY c.relname::text COLLATE \"C\")) FROM pg_partition_tree('{table}') t JOIN pg_class c ON c.oid = t.relid WHERE t.isleaf"
        );
        let shards = server.run(&shards).await[0][0].clone().unwrap();
        Asked { id, table: table.into(), shards, wait_ms: 10_000, stale_ms: None }
    }

    pub fn question(&self, types: &[&str], sql: &str) -> String {
        let stale = self.stale_ms.map_or("null".to_string(), |ms| ms.to_string());
        format!(
            "{{\"tables\":[{{\"copy\":{},\"schema\":\"public\",\"name\":\"{}\",\"shards\":\"{}\"}}],\"types\":{types:?},\"wait_ms\":{},\"stale_ms\":{stale},\"rows_max\":1000000,\"bytes_max\":200000000}}\n{sql}",
            self.id, self.table, self.shards, self.wait_ms
        )
    }

    pub async fn ask(&self, conn: &mut Conn, types: &[&str], sql: &str) -> Result<Vec<catalog::Row>, PoolError> {
        conn.simple(&self.question(types, sql)).await
    }

    /// As ask; while the copy is made anew, it is asked again.
    pub async fn ask_until(&self, store: &Store, types: &[&str], sql: &str) -> Vec<catalog::Row> {
        let mut conn = store.connect().await;
        let began = Instant::now();
        loop {
            match self.ask(&mut conn, types, sql).await {
                Ok(rows) => return rows,
                Err(e) if matches!(e.sqlstate(), "HC001" | "HC002") && began.elapsed() < Duration::from_secs(60) => {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                Err(e) => panic!("{e}\n{}", store.log()),
            }
        }
    }
}

pub async fn login(port: u16, user: &str, secret: Secret) -> Result<Conn, PoolError> {
    let target = NodeTarget::new("127.0.0.1", port, "postgres");
    Conn::connect(&target, &Login::new(user, secret), &[], Duration::from_secs(10)).await
}

/// The SQLSTATE of an answer that must be an error.
pub fn code<T: std::fmt::Debug>(answer: Result<T, PoolError>) -> String {
    answer.unwrap_err().sqlstate().to_string()
}
