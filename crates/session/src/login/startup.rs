//! What the parameters of a startup packet ask for. It does not know which users, databases or settings exist.

use wire::ErrorFields;
use wire::sqlstate;

use super::{LoginError, options};

/// Bytes of a PostgreSQL name (NAMEDATALEN - 1).
const NAME_MAX: usize = 63;

pub(super) struct Start {
    pub user: String,
    pub database: String,
    /// Each name once, in lower case.
    pub parameters: Vec<(String, String)>,
}

pub(super) fn interpret(parameters: Vec<(String, String)>) -> Result<Start, LoginError> {
    let (mut user, mut database) = (String::new(), String::new());
    let (mut from_options, mut settings) = (Vec::new(), Vec::new());
    for (name, value) in parameters {
        match &*name {
            "user" => user = value,
            "database" => database = value,
            "options" => from_options = options::parse(&value).map_err(|why| bad(sqlstate::SYNTAX_ERROR, why))?,
            "replication" => check_replication(&value)?,
            _ => settings.push((name, value)),
        }
    }
    if user.is_empty() {
        return Err(bad(
            sqlstate::INVALID_AUTHORIZATION_SPECIFICATION,
            "no PostgreSQL user name specified in startup packet",
        ));
    }
    let mut start = Start { user, database, parameters: Vec::new() };
    cut_name(&mut start.user);
    cut_name(&mut start.database);
    if start.database.is_empty() {
        start.database.clone_from(&start.user);
    }
    // A parameter of its own wins over the same in `options`.
    for (name, value) in from_options.into_iter().chain(settings) {
        start.set(name.to_ascii_lowercase(), value)?;
    }
    Ok(start)
}

impl Start {
    fn set(&mut self, name: String, value: String) -> Result<(), LoginError> {
        if name.is_empty() {
            return Err(bad(sqlstate::SYNTAX_ERROR, "a setting in \"options\" has no name"));
        }
        match self.parameters.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => self.parameters.push((name, value)),
        }
        Ok(())
    }
}

/// Longer names can't exist; PostgreSQL looks for what is left of them.
fn cut_name(name: &mut String) {
    let end = name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= NAME_MAX).last();
    name.truncate(end.unwrap_or(0));
}

fn bad(code: &str, message: impl Into<String>) -> LoginError {
    LoginError::Startup(Box::new(ErrorFields::fatal(code, message)))
}

/// "No" in PostgreSQL's spellings of booleans (bool.c) is no request for replication.
fn check_replication(value: &str) -> Result<(), LoginError> {
    let lower = value.to_ascii_lowercase();
    let starts = |word: &str, least: usize| lower.len() >= least && word.starts_with(&lower);
    if starts("false", 1) || starts("no", 1) || starts("off", 2) || lower == "0" {
        return Ok(());
    }
    if value == "database" || starts("true", 1) || starts("yes", 1) || lower == "on" || lower == "1" {
        let fields = ErrorFields::fatal(sqlstate::FEATURE_NOT_SUPPORTED, "replication connections are not supported")
            .hint("Connect to a node itself to replicate from it.");
        return Err(LoginError::Startup(Box::new(fields)));
    }
    let fields = ErrorFields::fatal(
        sqlstate::INVALID_PARAMETER_VALUE,
        format!("invalid value for parameter \"replication\": \"{value}\""),
    )
    .hint("Valid values are: \"false\", 0, \"true\", 1, \"database\".");
    Err(LoginError::Startup(Box::new(fields)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(parameters: &[(&str, &str)]) -> Result<Start, String> {
        let owned = parameters.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect();
        interpret(owned).map_err(|e| e.to_fields().unwrap().code().to_string())
    }

    #[test]
    fn the_database_defaults_to_the_user() {
        let it = start(&[("user", "ann")]).unwrap();
        assert_eq!((&*it.user, &*it.database, it.parameters.len()), ("ann", "ann", 0));
        assert_eq!(start(&[("user", "ann"), ("database", "")]).unwrap().database, "ann");
        assert_eq!(start(&[("user", "ann"), ("database", "shop")]).unwrap().database, "shop");
        assert_eq!(start(&[("user", "")]).err().unwrap(), "28000");
        assert_eq!(start(&[("database", "shop")]).err().unwrap(), "28000");
    }

    #[test]
    fn long_names_are_cut_as_postgresql_cuts_them() {
        let long = format!("{}éé", "x".repeat(62));
        let it = start(&[("user", &long)]).unwrap();
        assert_eq!(it.user, "x".repeat(62));
        assert_eq!(it.database, it.user);
    }

    #[test]
    fn parameters_win_over_options_and_later_over_earlier() {
        let it = start(&[
            ("user", "ann"),
            ("DateStyle", "ISO"),
            ("options", "-c DATESTYLE=German -c search_path=a -c search_path=b"),
            ("datestyle", "SQL"),
        ])
        .unwrap();
        let expected = [("datestyle", "SQL"), ("search_path", "b")].map(|(n, v)| (n.to_string(), v.to_string()));
        assert_eq!(it.parameters, expected);
    }

    #[test]
    fn replication_is_refused_and_its_absence_is_not() {
        for no in ["false", "f", "OFF", "of", "no", "n", "0"] {
            assert!(start(&[("user", "a"), ("replication", no)]).is_ok(), "{no}");
        }
        for yes in ["true", "t", "database", "on", "YES", "1"] {
            assert_eq!(start(&[("user", "a"), ("replication", yes)]).err().unwrap(), "0A000", "{yes}");
        }
        for odd in ["", "o", "2", "maybe"] {
            assert_eq!(start(&[("user", "a"), ("replication", odd)]).err().unwrap(), "22023", "{odd}");
        }
    }

    #[test]
    fn bad_options_are_refused() {
        for bad in ["-d 5", "--=x", "-c x"] {
            assert_eq!(start(&[("user", "a"), ("options", bad)]).err().unwrap(), "42601", "{bad}");
        }
    }
}
