//! Roles and their settings. A password is hashed once, here, so that every server gets the same verifier: a client's proof
//! to the router then opens all nodes. Clear passwords go to no node, and to no log.

use sql::ast::{self, Node};
use sql::{NodeEnum, build};
use wire::scram::Verifier;

use super::place::{Cx, deparse};
use super::steps::Step;
use super::{Ddl, Decided};

/// CREATE or ALTER ROLE that tells a clear password.
pub fn tells_password(statement: &NodeEnum) -> bool {
    let options = match statement {
        NodeEnum::CreateRoleStmt(s) => &s.options,
        NodeEnum::AlterRoleStmt(s) => &s.options,
        _ => return false,
    };
    options.iter().any(|option| match &option.node {
        Some(NodeEnum::DefElem(d)) => clear(d).is_some(),
        _ => false,
    })
}

/// The same with a verifier in its place, by so many rounds of hashing; None if there is none.
pub fn with_verifier(statement: &NodeEnum, salt: &[u8; 16], iterations: u32) -> Option<NodeEnum> {
    let mut changed = statement.clone();
    let options = match &mut changed {
        NodeEnum::CreateRoleStmt(s) => &mut s.options,
        NodeEnum::AlterRoleStmt(s) => &mut s.options,
        _ => return None,
    };
    let mut found = false;
    for option in options {
        let Some(NodeEnum::DefElem(d)) = &mut option.node else { continue };
        if let Some(verifier) = clear(d).map(|password| Verifier::from_password(password, salt, iterations)) {
            d.arg = Some(Box::new(build::string(&verifier.to_string())));
            found = true;
        }
    }
    found.then_some(changed)
}

/// The clear password of an option.
fn clear(option: &ast::DefElem) -> Option<&str> {
    match option.arg.as_deref() {
        Some(Node { node: Some(NodeEnum::String(password)) }) if option.defname == "password" => {
            Some(password.sval.as_str()).filter(|password| !password.is_empty() && !is_hashed(password))
        }
        _ => None,
    }
}

/// As PostgreSQL's get_password_type (crypt.c): what looks like a hash is stored as it is.
fn is_hashed(text: &str) -> bool {
    let md5 = text.len() == 35 && text.starts_with("md5") && text[3..].bytes().all(|b| b.is_ascii_hexdigit());
    md5 || Verifier::parse(text).is_ok()
}

/// `ALTER ROLE … [IN DATABASE …] SET …`: a database may have another name on each node.
pub fn set(cx: &Cx, s: &ast::AlterRoleSetStmt) -> Decided {
    if s.database.is_empty() {
        return Ok(Ddl::Nodes(Box::new(cx.each_server(cx.sql))));
    }
    in_databases(cx, &s.database, |database| {
        NodeEnum::AlterRoleSetStmt(ast::AlterRoleSetStmt { database, ..s.clone() })
    })
}

/// `ALTER DATABASE … SET …`, for each node's own database if it is the herd's.
pub fn database_set(cx: &Cx, s: &ast::AlterDatabaseSetStmt) -> Decided {
    in_databases(cx, &s.dbname, |dbname| {
        NodeEnum::AlterDatabaseSetStmt(ast::AlterDatabaseSetStmt { dbname, ..s.clone() })
    })
}

/// The statement for each node's own database, if it is about the herd's; other databases are home's affair.
pub fn in_databases(cx: &Cx, database: &str, statement: impl Fn(String) -> NodeEnum) -> Decided {
    let home = cx.snapshot.node(cx.home());
    if home.is_none_or(|n| n.database != database) {
        return Ok(Ddl::Home);
    }
    let mut spread = cx.everywhere(cx.sql);
    for n in spread.nodes.iter_mut().skip(1) {
        let name = cx.snapshot.node(n.node).map(|n| n.database.clone()).unwrap_or_default();
        if name != database {
            n.steps = vec![Step::new(deparse(statement(name))?)];
        }
    }
    Ok(Ddl::Nodes(Box::new(spread)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sql: &str) -> Option<String> {
        let statement = sql::parse(sql, true).unwrap().remove(0);
        with_verifier(&statement, &[7; 16], 5000).map(|s| sql::deparse(&s).unwrap())
    }

    #[test]
    fn clear_passwords_are_hashed_and_nothing_else_is() {
        for sql in [
            "CREATE ROLE a LOGIN PASSWORD 'secret'",
            "ALTER USER a WITH ENCRYPTED PASSWORD 'secret' VALID UNTIL 'infinity'",
        ] {
            let text = rewritten(sql).unwrap();
            assert!(!text.contains("secret"), "{text}");
            let verifier = text.split('\'').nth(1).unwrap();
            assert_eq!(verifier, Verifier::from_password("secret", &[7; 16], 5000).to_string());
        }
        let verifier = Verifier::from_password("x", &[1; 16], 4096).to_string();
        let hashed = format!("ALTER ROLE a PASSWORD '{verifier}'");
        for sql in [
            &hashed,
            "ALTER ROLE a PASSWORD NULL",
            "ALTER ROLE a PASSWORD ''",
            "CREATE ROLE a",
            "ALTER ROLE a PASSWORD 'md5c4ca4238a0b923820dcc509a6f75849b'",
        ] {
            assert_eq!(rewritten(sql), None, "{sql}");
        }
    }
}
