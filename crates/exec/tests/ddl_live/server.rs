//! A throw-away PostgreSQL with a herd of three databases on it. Binaries: `HERD_PG_BIN`, or the newest in
//! /usr/lib/postgresql.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use catalog::schema::NodeAddress;
use catalog::{
    DistributeRequest, DistributionPlan, bootstrap_home, bootstrap_node_sql, load, plan_add_node, plan_distribution,
    plan_reference, read_definition,
};
use pool::{Conn, Login, NodeTarget, Secret};

pub struct Server {
    bin: PathBuf,
    dir: PathBuf,
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
    pub fn start(name: &str) -> Option<Server> {
        let Some(bin) = bin() else {
            println!("skipped: no PostgreSQL found (set HERD_PG_BIN to its bin directory)");
            return None;
        };
        let dir = std::env::temp_dir().join(format!("ddl-test-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let server = Server { bin, dir };
        if let Some(user) = unprivileged() {
            run(Command::new("chown").arg(user).arg(&server.dir));
        }
        let data = server.dir.join("data");
        run(server.program("initdb").arg("-D").arg(&data).args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-N",
            "--locale=C.UTF-8",
        ]));
        let options =
            format!("-k {} -c listen_addresses= -c fsync=off -c max_prepared_transactions=20", server.dir.display());
        let mut start = server.program("pg_ctl");
        start.arg("start").arg("-w").arg("-D").arg(&data).arg("-l").arg(server.dir.join("log")).arg("-o").arg(options);
        assert!(start.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
        Some(server)
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

    pub fn target(&self, database: &str) -> NodeTarget {
        NodeTarget::new(&self.dir.display().to_string(), 5432, database)
    }

    pub async fn connect(&self, database: &str) -> Conn {
        let admin = Login::new("postgres", Secret::None);
        Conn::connect(&self.target(database), &admin, &[], std::time::Duration::from_secs(10)).await.unwrap()
    }

    fn address(&self, database: &str) -> NodeAddress {
        NodeAddress {
            name: database.into(),
            host: self.dir.display().to_string(),
            port: 5432,
            database: database.into(),
        }
    }

    /// Home is `n1`.
    pub async fn herd(&self) -> Vec<Conn> {
        let mut first = self.connect("postgres").await;
        let mut nodes = Vec::new();
        for name in ["n1", "n2", "n3"] {
            first.simple(&format!("CREATE DATABASE {name}")).await.unwrap();
            nodes.push(self.connect(name).await);
        }
        let key = bootstrap_home(&mut nodes[0], &self.address("n1")).await.unwrap();
        for name in ["n2", "n3"] {
            let snapshot = load(&mut nodes[0]).await.unwrap();
            let mut conn = self.connect(name).await;
            conn.simple(&bootstrap_node_sql(&key.id)).await.unwrap();
            conn.with_parameters(catalog::SEAL_NODE, &[&key.seal]).await.unwrap();
            let (_, plan) = plan_add_node(&snapshot, &[], &self.address(name), snapshot.server_version).unwrap();
            change(&mut nodes, plan).await;
        }
        nodes
    }
}

/// Runs a plan for empty tables.
pub async fn change(nodes: &mut [Conn], plan: DistributionPlan) {
    for part in plan.before.iter().chain(&plan.after) {
        let text = format!("BEGIN; {}; COMMIT", part.statements.join("; "));
        nodes[part.node as usize - 1].simple(&text).await.unwrap_or_else(|e| panic!("{e}\n{text}"));
    }
}

pub async fn distribute(nodes: &mut [Conn], table: &str, key: &str) {
    let snapshot = load(&mut nodes[0]).await.unwrap();
    let definition = read_definition(&mut nodes[0], "public", table).await.unwrap();
    let request = DistributeRequest {
        schema: "public".into(),
        name: table.into(),
        columns: vec![key.into()],
        shard_count: Some(4),
        ..Default::default()
    };
    let plan = plan_distribution(&snapshot, &definition, &request, 4).unwrap();
    in_step(nodes, plan).await;
}

pub async fn reference(nodes: &mut [Conn], table: &str) {
    let snapshot = load(&mut nodes[0]).await.unwrap();
    let definition = read_definition(&mut nodes[0], "public", table).await.unwrap();
    let plan = plan_reference(&snapshot, &definition).unwrap();
    in_step(nodes, plan).await;
}

/// Before and after in one transaction on each node: what is put aside is only there in between.
async fn in_step(nodes: &mut [Conn], plan: DistributionPlan) {
    for node in nodes.iter_mut() {
        node.simple("BEGIN").await.unwrap();
    }
    for part in plan.before.iter().chain(&plan.after) {
        for sql in &part.statements {
            nodes[part.node as usize - 1].simple(sql).await.unwrap_or_else(|e| panic!("{e}\n{sql}"));
        }
    }
    nodes[0].simple("SELECT herd.bump_epoch()").await.unwrap();
    for node in nodes.iter_mut() {
        node.simple("COMMIT").await.unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ =
            self.program("pg_ctl").arg("stop").arg("-m").arg("immediate").arg("-D").arg(self.dir.join("data")).output();
        let _ = fs::remove_dir_all(&self.dir);
    }
}
