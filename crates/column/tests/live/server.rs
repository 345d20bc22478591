//! A throw-away PostgreSQL with a list of column copies. Binaries: `HERD_PG_BIN`, or the newest in /usr/lib/postgresql.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use pool::{Conn, Login, NodeTarget, Secret};

pub struct Server {
    bin: PathBuf,
    pub dir: PathBuf,
}

fn bin() -> Option<PathBuf> {
    let named = std::env::var_os("HERD_PG_BIN").map(PathBuf::from);
    let installed =
        || fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|e| e.path().join("bin")).max();
    named.or_else(installed).filter(|b| b.join("initdb").exists())
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// PostgreSQL refuses to run as root.
fn unprivileged() -> Option<&'static str> {
    if run(Command::new("id").arg("-u")).trim() != "0" {
        return None;
    }
    ["postgres", "nobody"].into_iter().find(|u| Command::new("id").arg(u).output().is_ok_and(|o| o.status.success()))
}

impl Server {
    /// None, and a word about it, where there is no PostgreSQL.
    pub async fn start(name: &str) -> Option<Server> {
        let Some(bin) = bin() else {
            println!("skipped: no PostgreSQL found (set HERD_PG_BIN to its bin directory)");
            return None;
        };
        let dir = std::env::temp_dir().join(format!("column-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let server = Server { bin, dir };
        if let Some(user) = unprivileged() {
            run(Command::new("chown").arg(user).arg(&server.dir));
        }
        let data = server.dir.join("data");
        let options = ["-U", "postgres", "-A", "trust", "-N", "--locale=C.UTF-8"];
        run(server.program("initdb").arg("-D").arg(&data).args(options));
        server.begin();
        let mut conn = server.connect().await;
        let list = "CREATE SCHEMA herd; CREATE TABLE herd.column_copy (id int8 PRIMARY KEY, relation oid NOT NULL, columns text[] NOT NULL, order_by text[] NOT NULL DEFAULT '{}')";
        conn.simple(list).await.unwrap();
        Some(server)
    }

    pub fn begin(&self) {
        let options = format!(
            "-k {} -c listen_addresses= -c fsync=off -c wal_level=logical -c max_prepared_transactions=20 -c max_connections=50 -c max_wal_size=4GB",
            self.dir.display()
        );
        let mut start = self.program("pg_ctl");
        start
            .arg("start")
            .arg("-w")
            .arg("-D")
            .arg(self.dir.join("data"))
            .arg("-l")
            .arg(self.dir.join("log"))
            .arg("-o")
            .arg(options);
        assert!(start.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
    }

    pub fn end(&self, mode: &str) {
        let _ = self.program("pg_ctl").arg("stop").arg("-m").arg(mode).arg("-D").arg(self.dir.join("data")).output();
    }

    fn program(&self, name: &str) -> Command {
        let program = self.bin.join(name);
        let mut command = match unprivileged() {
            None => Command::new(program),
            Some(user) => {
                let mut command = Command::new("runuser");
                command.args(["-u", user, "--"]).arg(program);
                command
            }
        };
        command.current_dir(&self.dir);
        command
    }

    pub async fn connect(&self) -> Conn {
        let target = NodeTarget::new(&self.dir.display().to_string(), 5432, "postgres");
        let startup = [
            ("client_encoding", "UTF8"),
            ("TimeZone", "UTC"),
            ("options", "-c extra_float_digits=1 -c bytea_output=hex"),
        ];
        // It may be told to have begun, and not take anybody yet.
        for _ in 0..200 {
            let login = Login::new("postgres", Secret::None);
            match Conn::connect(&target, &login, &startup, Duration::from_secs(10)).await {
                Err(e) if e.sqlstate() == "57P03" => tokio::time::sleep(Duration::from_millis(50)).await,
                connected => return connected.unwrap(),
            }
        }
        panic!("PostgreSQL takes nobody");
    }

    /// Once the slot is left: whoever read from it may be gone for a moment only.
    pub async fn run_on_slot(&self, sql: &str) {
        let mut conn = self.connect().await;
        for _ in 0..400 {
            match conn.simple(sql).await {
                Err(e) if e.sqlstate() == "55006" => tokio::time::sleep(Duration::from_millis(25)).await,
                done => return done.map(|_| ()).unwrap(),
            }
        }
        panic!("the slot is not left");
    }

    pub async fn run(&self, sql: &str) -> Vec<catalog::Row> {
        self.connect().await.simple(sql).await.unwrap_or_else(|e| panic!("{e}\n{sql}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("immediate");
        let _ = fs::remove_dir_all(&self.dir);
    }
}
