//! A herd of several databases on one server, and a plain way to run plans on it.

use std::io::{Read, Write};

use catalog::schema::NodeAddress;
use catalog::*;
use key::{Located, PartitionStrategy};

use crate::server::{Server, Session, now};

pub struct Herd {
    /// Home first; node id = position + 1.
    pub nodes: Vec<Session>,
}

pub fn address(database: &str) -> NodeAddress {
    NodeAddress { name: database.into(), host: "localhost".into(), port: 5432, database: database.into() }
}

impl Herd {
    pub fn new(server: &Server, nodes: usize) -> Herd {
        let database = server.database();
        let mut home = server.connect(&database);
        now(bootstrap_home(&mut home, &address(&database))).unwrap();
        let mut herd = Herd { nodes: vec![home] };
        for _ in 1..nodes {
            herd.add_node(server, &[]).unwrap();
        }
        herd
    }

    pub fn home(&mut self) -> &mut Session {
        &mut self.nodes[0]
    }

    pub fn key(&mut self) -> HerdKey {
        now(schema::read_key(self.home())).unwrap()
    }

    pub fn snapshot(&mut self) -> Snapshot {
        now(load(self.home())).unwrap()
    }

    pub fn definition(&mut self, table: &str) -> Definition {
        let (schema, name) = table.split_once('.').unwrap_or(("public", table));
        now(read_definition(self.home(), schema, name)).unwrap()
    }

    /// Runs SQL on every node.
    pub fn everywhere(&mut self, sql: &str) {
        self.nodes.iter_mut().for_each(|node| drop(node.sql(sql)));
    }

    pub fn add_node(&mut self, server: &Server, definitions: &[Definition]) -> Result<(), Refusal> {
        let snapshot = self.snapshot();
        let database = server.database();
        let mut session = server.connect(&database);
        let key = self.key();
        session.sql(&bootstrap_node_sql(&key.id));
        session.sql(&SEAL_NODE.replace("$1", &quote_literal(&key.seal)));
        let version = snapshot.server_version;
        let (node, plan) = plan_add_node(&snapshot, definitions, &address(&database), version)?;
        assert_eq!(node.id as usize, self.nodes.len() + 1);
        self.nodes.push(session);
        self.run(plan);
        Ok(())
    }

    pub fn request(table: &str, columns: &[&str]) -> DistributeRequest {
        let (schema, name) = table.split_once('.').unwrap_or(("public", table));
        DistributeRequest {
            schema: schema.into(),
            name: name.into(),
            columns: columns.iter().map(|c| c.to_string()).collect(),
            shard_count: Some(4),
            ..DistributeRequest::default()
        }
    }

    pub fn distribute(&mut self, request: &DistributeRequest) -> Result<(), Refusal> {
        let snapshot = self.snapshot();
        let definition = now(read_definition(self.home(), &request.schema, &request.name)).unwrap();
        let plan = plan_distribution(&snapshot, &definition, request, 32)?;
        self.run(plan);
        Ok(())
    }

    /// `create_distributed_table` with hash and 4 shards.
    pub fn by_hash(&mut self, table: &str, columns: &[&str]) -> Result<(), Refusal> {
        self.distribute(&Herd::request(table, columns))
    }

    /// By range or list.
    pub fn by_bounds(
        &mut self,
        table: &str,
        column: &str,
        strategy: PartitionStrategy,
        texts: &[&str],
    ) -> Result<(), CatalogError<postgres::Error>> {
        let definition = self.definition(table);
        let texts: Vec<String> = texts.iter().map(|t| t.to_string()).collect();
        let columns = [column.to_string()];
        let bounds = now(read_bounds(self.home(), &definition, &columns, strategy, &texts))?;
        let request = DistributeRequest {
            strategy: Some(strategy),
            shard_count: None,
            bounds: Some(bounds),
            ..Herd::request(table, &[column])
        };
        Ok(self.distribute(&request)?)
    }

    pub fn reference(&mut self, table: &str) -> Result<(), Refusal> {
        let (snapshot, definition) = (self.snapshot(), self.definition(table));
        self.run(plan_reference(&snapshot, &definition)?);
        Ok(())
    }

    pub fn undistribute(&mut self, table: &str) -> Result<(), Refusal> {
        let (snapshot, definition) = (self.snapshot(), self.definition(table));
        self.run(plan_undistribute(&snapshot, &definition)?);
        Ok(())
    }

    /// Runs a plan as its caller has to: a transaction on each node, prepared everywhere but on home.
    pub fn run(&mut self, plan: DistributionPlan) {
        self.try_run(plan).unwrap();
    }

    pub fn try_run(&mut self, plan: DistributionPlan) -> Result<(), postgres::Error> {
        self.everywhere("BEGIN");
        let result = self.run_parts(&plan);
        if result.is_err() {
            self.everywhere("ROLLBACK");
            return result;
        }
        let home: Vec<String> = self.nodes[0].lines("SELECT id FROM herd.herd");
        for (i, node) in self.nodes.iter_mut().enumerate().skip(1) {
            node.sql(&format!("PREPARE TRANSACTION '{}_{i}'", home[0]));
        }
        self.nodes[0].sql("COMMIT");
        for (i, node) in self.nodes.iter_mut().enumerate().skip(1) {
            node.sql(&format!("COMMIT PREPARED '{}_{i}'", home[0]));
        }
        plan.after_commit.iter().for_each(|sql| drop(self.nodes[0].sql(sql)));
        Ok(())
    }

    fn run_parts(&mut self, plan: &DistributionPlan) -> Result<(), postgres::Error> {
        let run = |parts: &[NodeSql], nodes: &mut [Session]| -> Result<(), postgres::Error> {
            for part in parts {
                for statement in &part.statements {
                    let result = nodes[part.node as usize - 1].try_sql(statement);
                    result.inspect_err(|error| println!("{statement}\n{error} {:?}", error.as_db_error()))?;
                }
            }
            Ok(())
        };
        let lock = lock_kinds_sql("public", std::time::Duration::from_secs(1));
        self.home().try_sql(&lock)?;
        let epoch = self.home().one("SELECT epoch + 1 FROM herd.epoch");
        run(&plan.before, &mut self.nodes)?;
        for copy in &plan.copies {
            self.copy(copy);
        }
        run(&plan.after, &mut self.nodes)?;
        let gone = "SELECT pg_catalog.to_regclass('herd.epoch') IS NULL";
        for node in &mut self.nodes {
            if node.one(gone) == "f" {
                node.sql(&format!("SELECT herd.bump_epoch({epoch})"));
            }
        }
        Ok(())
    }

    fn copy(&mut self, copy: &CopyRows) {
        let mut outgoing = vec![String::new(); self.nodes.len()];
        for (source, sql) in &copy.sources {
            let mut rows = String::new();
            self.nodes[*source as usize - 1].0.copy_out(sql).unwrap().read_to_string(&mut rows).unwrap();
            for row in rows.lines() {
                for node in targets(&copy.to, row) {
                    outgoing[node as usize - 1] += &format!("{row}\n");
                }
            }
        }
        for (node, rows) in self.nodes.iter_mut().zip(outgoing).filter(|(_, rows)| !rows.is_empty()) {
            let mut writer = node.0.copy_in(&copy.into).unwrap();
            writer.write_all(rows.as_bytes()).unwrap();
            writer.finish().unwrap();
        }
    }
}

fn targets(to: &CopyTarget, row: &str) -> Vec<NodeId> {
    match to {
        CopyTarget::Nodes(nodes) => nodes.clone(),
        CopyTarget::ByKey { key, group } => {
            let cells: Vec<&str> = row.split('\t').collect();
            let value =
                |(oid, i): (&Oid, &usize)| (cells[*i] != "\\N").then(|| key::parse_text(*oid, cells[*i]).unwrap());
            let values: Vec<_> = group.key_types.iter().zip(key).map(value).collect();
            let bounds: Vec<_> = group.shards.iter().map(|s| s.bound.clone()).collect();
            match key::locate(group.strategy, &group.key_types, &bounds, &values).unwrap() {
                Located::Shard(i) => vec![group.shards[i].node],
                Located::Nowhere => panic!("no shard for {row}"),
            }
        }
    }
}
