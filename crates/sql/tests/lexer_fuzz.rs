//! Fuzzing of the lexer, templates and the splitter: any text is taken apart without a panic, and what is found lies in order,
//! inside the text and at its characters' borders. A text with other literals has the same template. `make fuzz` runs it for long.

#[path = "../../wire/tests/fuzz_support/mod.rs"]
mod fuzz_support;

use std::path::Path;

use fuzz_support::{Seen, run};
use sql::lexer::Lexer;
use sql::split::{first_keyword, split_statements};
use sql::template::Template;

const WORDS: &[&[u8]] = &[
    b"'",
    b"''",
    b"\\",
    b"E'",
    b"U&'",
    b"$$",
    b"$a$",
    b"\"",
    b"--",
    b"/*",
    b"*/",
    b"\n",
    b";",
    b"(",
    b")",
    b"::",
    b"1.5e-3",
    b"0x1F",
    b"1_000",
    b"-1",
    b"$1",
    b"select ",
    b"begin atomic ",
    b"end",
    b"create function ",
    b"case ",
    b"\xc3\xa9",
    b"B'01'",
    b"N'x'",
    b"UESCAPE '!'",
    b"null",
];

const SEEDS: &[&str] = &[
    "select 1",
    "select 'a''b', E'\\'', $$x$$, $a$ $$ $a$, U&'\\0041', B'01', X'1F' from t where a = -1.5e3 and b = $1;",
    "insert into t (a, b) values (1, 'x'), (2, null) on conflict do nothing; -- done\nselect /* a /* nested */ comment */ 2",
    "create function f() returns int begin atomic select case when true then 1 end; end; select 0x1F, 1_000, .5, 5.",
    "update \"T t\" set a = a + 1 where k in (1, 2, 3) and c like 'é%' escape '!'",
    "select 1 as \"\", 'unfinished",
    "/* unfinished",
    "$a$ unfinished",
];

fn target(input: &[u8], seen: &mut Seen) {
    let sql = String::from_utf8_lossy(input);
    for strings in [true, false] {
        let mut end = 0;
        let mut kinds = Vec::new();
        for token in Lexer::new(&sql, strings) {
            let Ok(token) = token else {
                seen.note(("lexer's error", token.map_err(|e| std::mem::discriminant(&e)).err()));
                break;
            };
            let (from, to) = (token.start, token.end);
            assert!(end <= from && from < to && sql.get(from..to).is_some(), "a token of {from}..{to} behind {end}");
            end = to;
            if kinds.len() < 2 {
                kinds.push(std::mem::discriminant(&token.kind));
            } else {
                kinds.rotate_left(1);
                kinds[1] = std::mem::discriminant(&token.kind);
            }
            seen.note(&kinds);
        }
        match split_statements(&sql, strings) {
            Ok(ranges) => {
                let mut end = 0;
                for range in &ranges {
                    assert!(end <= range.start && !sql[range.clone()].is_empty());
                    end = range.end;
                    first_keyword(&sql[range.clone()]);
                }
                seen.note(("statements", ranges.len().min(4)));
            }
            Err(e) => seen.note(("split", std::mem::discriminant(&e))),
        }
        let mut template = Template::new();
        match template.scan(&sql, strings) {
            Ok(()) => {
                let mut end = 0;
                for (i, literal) in template.literals().iter().enumerate() {
                    let (from, to) = (literal.start as usize, literal.end as usize);
                    assert!(end <= from && from < to && sql.get(from..to) == Some(template.literal_text(&sql, i)));
                    assert_eq!(
                        template.position(from).map(|p| template.offset(p)),
                        Some(from).filter(|_| template.position(from).is_some())
                    );
                    let value = template.literal_value(&sql, i);
                    seen.note(("literal", std::mem::discriminant(&literal.kind), value.is_ok()));
                    end = to;
                }
                // A number in place of each number: another statement of the same template.
                let mut other = sql.to_string();
                for literal in template.literals().iter().rev() {
                    let (from, to) = (literal.start as usize, literal.end as usize);
                    if sql[from..to].bytes().all(|b| b.is_ascii_digit()) && to - from < 9 {
                        other.replace_range(from..to, &"7".repeat(to - from));
                    }
                }
                let mut again = Template::new();
                again.scan(&other, strings).expect("digits for digits");
                assert_eq!((again.text(), again.hash()), (template.text(), template.hash()), "{other}");
            }
            Err(e) => seen.note(("template", std::mem::discriminant(&e))),
        }
    }
}

#[test]
fn any_text() {
    let seeds = SEEDS.iter().map(|s| s.as_bytes().to_vec()).collect();
    let corpus = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus"));
    run(corpus, "lexer", seeds, WORDS, target);
}
