//! The startup parameter `options`: a server's command line, of which clients may give settings.
//! (PostgreSQL: postinit.c, pg_split_opts; postgres.c, process_postgres_switches.) It does not know which settings exist.

/// Why `options` can't be read; a sentence for people.
pub(super) type Bad = String;

/// The settings in `-c name=value --name=value …`, in order. In names, `-` stands for `_`.
pub(super) fn parse(options: &str) -> Result<Vec<(String, String)>, Bad> {
    let mut settings = Vec::new();
    let mut arguments = split(options).into_iter();
    while let Some(argument) = arguments.next() {
        let setting = match (argument.strip_prefix("--"), argument.strip_prefix("-c")) {
            (Some(setting), _) => setting.to_string(),
            (_, Some("")) => arguments.next().ok_or("option -c requires an argument")?,
            (_, Some(setting)) => setting.to_string(),
            _ => return Err(format!("invalid command-line argument for server process: {argument}")),
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("-c {setting} requires a value"))?;
        settings.push((name.replace('-', "_"), value.to_string()));
    }
    Ok(settings)
}

/// At white space; a backslash takes away what the next character means here.
fn split(options: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut current: Option<String> = None;
    let mut characters = options.chars();
    while let Some(c) = characters.next() {
        // As isspace() in the C locale.
        if matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c') {
            arguments.extend(current.take());
            continue;
        }
        let current = current.get_or_insert_default();
        match c {
            '\\' => current.extend(characters.next()),
            _ => current.push(c),
        }
    }
    arguments.extend(current);
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(options: &str, expected: &[(&str, &str)]) {
        let got = parse(options).unwrap();
        let got: Vec<_> = got.iter().map(|(n, v)| (&**n, &**v)).collect();
        assert_eq!(got, expected, "{options}");
    }

    #[test]
    fn settings_are_read_in_all_spellings() {
        check("", &[]);
        check("  \t", &[]);
        check("-c a=1 -cb=2 --c-d=3", &[("a", "1"), ("b", "2"), ("c_d", "3")]);
        check("-c\ta=", &[("a", "")]);
        check("-c a=b=c", &[("a", "b=c")]);
        check("--work-mem=64-MB", &[("work_mem", "64-MB")]);
    }

    #[test]
    fn backslashes_keep_the_next_character() {
        check(r"-c search_path=a,\ b", &[("search_path", "a, b")]);
        check(r"-c a=\\x\ ", &[("a", r"\x ")]);
        check(r"-c a=x\", &[("a", "x")]);
        check(r"\-c a=1", &[("a", "1")]);
    }

    #[test]
    fn everything_else_is_refused() {
        for bad in ["-c", "-c a", "--a", "-d 5", "-F", "a=1", "--", "-"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
