//! Random literals of every type the crate knows, as text that PostgreSQL's input functions take.
//!
//! From a seed that is printed; set `KEY_TEST_SEED` to repeat a run.

use std::time::{SystemTime, UNIX_EPOCH};

/// splitmix64.
pub struct Random(u64);

impl Random {
    pub fn new(what: &str) -> Random {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64);
        let seed = std::env::var("KEY_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(now);
        println!("{what}: KEY_TEST_SEED={seed}");
        Random(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len() as u64) as usize]
    }

    /// Signed, of a random width up to `bits`, so that small and extreme values both come.
    pub fn int(&mut self, bits: u32) -> i64 {
        let width = 1 + self.below(bits.into()) as u32;
        (self.next() as i64) >> (64 - width)
    }

    fn unsigned(&mut self, bits: u32) -> u64 {
        let width = 1 + self.below(bits.into()) as u32;
        self.next() >> (64 - width)
    }

    fn digits(&mut self, max: u64) -> String {
        let len = 1 + self.below(max);
        (0..len).map(|_| (b'0' + if self.chance(30) { 0 } else { self.below(10) as u8 }) as char).collect()
    }

    fn hex(&mut self, len: usize) -> String {
        (0..len).map(|_| format!("{:x}", self.below(16))).collect()
    }

    pub fn string(&mut self, max: u64) -> String {
        let alphabet = ["a", "b", "Z", "0", " ", "  ", "\\", "\"", "'", "{", ",", "\n", "\t", "ä", "€", "😀", "%", "_"];
        let len = self.below(max + 1);
        let mut text: String = (0..len).map(|_| self.pick(&alphabet)).collect();
        if self.chance(20) {
            text.push_str("   ");
        }
        text
    }

    fn date(&mut self) -> String {
        format!("{:04}-{:02}-{:02}", 1 + self.below(9999), 1 + self.below(12), 1 + self.below(28))
    }

    fn time(&mut self) -> String {
        let mut text = format!("{:02}:{:02}", self.below(24), self.below(60));
        if self.chance(80) {
            text.push_str(&format!(":{:02}", self.below(60)));
            if self.chance(60) {
                text.push('.');
                text.push_str(&self.digits(6));
            }
        }
        text
    }

    fn zone(&mut self) -> String {
        let sign = self.pick(&["+", "-"]);
        match self.below(3) {
            0 => format!("{sign}{:02}", self.below(14)),
            1 => format!("{sign}{:02}:{:02}", self.below(14), self.pick(&["00", "30", "45"])),
            _ => "Z".to_owned(),
        }
    }

    fn numeric(&mut self) -> String {
        if self.chance(5) {
            return self.pick(&["NaN", "Infinity", "-Infinity", "0", "-0.00", "1e300", "1e-300"]).to_owned();
        }
        let mut text = self.pick(&["", "", "-", "+"]).to_owned();
        text.push_str(&self.digits(25));
        if self.chance(50) {
            text.push('.');
            text.push_str(&self.digits(12));
        }
        if self.chance(20) {
            text.push_str(&format!("e{}", self.int(6)));
        }
        text
    }

    fn float(&mut self, single: bool) -> String {
        if self.chance(8) {
            return self.pick(&["NaN", "Infinity", "-inf", "0", "-0", "1", "16777216"]).to_owned();
        }
        if single {
            let value = f32::from_bits(self.next() as u32);
            return if value.is_finite() { format!("{value:e}") } else { "1.5".to_owned() };
        }
        let value = f64::from_bits(self.next());
        if value.is_finite() { format!("{value:e}") } else { "-2.5".to_owned() }
    }

    fn address(&mut self, cidr: bool) -> String {
        let v6 = self.chance(50);
        let (groups, width) = if v6 { (8, 16) } else { (4, 8) };
        // A cidr has no bits right of its mask: whole groups are kept, the others are zero.
        let kept = if cidr { self.below(groups + 1) } else { groups };
        let group = |random: &mut Random, index: u64| {
            if index < kept { random.unsigned(width as u32) } else { 0 }
        };
        let parts: Vec<u64> = (0..groups).map(|index| group(self, index)).collect();
        let text = if v6 {
            let parts: Vec<u16> = parts.iter().map(|part| *part as u16).collect();
            let octets: Vec<u8> = parts.iter().flat_map(|part| part.to_be_bytes()).collect();
            std::net::Ipv6Addr::from(<[u8; 16]>::try_from(octets).expect("16 octets")).to_string()
        } else {
            parts.iter().map(u64::to_string).collect::<Vec<_>>().join(".")
        };
        match (cidr, self.chance(50)) {
            (true, _) => format!("{text}/{}", kept * width),
            (false, true) => format!("{text}/{}", self.below(groups * width + 1)),
            (false, false) => text,
        }
    }

    fn json(&mut self, depth: u32) -> String {
        let kinds = if depth == 0 { 5 } else { 7 };
        match self.below(kinds) {
            0 => self.pick(&["null", "true", "false"]).to_owned(),
            1 => self.int(40).to_string(),
            2 => self
                .pick(&["1.50", "-0", "1e5", "2.5E-3", "0.0", "123456789012345678901234567890", "10000", "1.0"])
                .to_owned(),
            3 | 4 => self.json_string(),
            5 => {
                let len = self.below(4);
                let elements: Vec<String> = (0..len).map(|_| self.json(depth - 1)).collect();
                format!("[{}]", elements.join(" ,"))
            }
            _ => {
                let len = self.below(5);
                let members: Vec<String> =
                    (0..len).map(|_| format!("{} : {}", self.json_string(), self.json(depth - 1))).collect();
                format!("{{{}}}", members.join(","))
            }
        }
    }

    fn json_string(&mut self) -> String {
        let parts =
            ["a", "b", "bb", "\\n", "\\\"", "\\\\", "\\u00e4", "\\ud83d\\ude00", "\\u0001", "€", " ", "\\/", "\u{7f}"];
        let len = self.below(4);
        let text: String = (0..len).map(|_| self.pick(&parts)).collect();
        format!("\"{text}\"")
    }

    /// A literal of a scalar type, by `pg_type.typname`.
    pub fn scalar(&mut self, typname: &str) -> String {
        match typname {
            "bool" => self.pick(&["t", "f", "true", "no", "ON", "off", "1", "0"]).to_owned(),
            "bytea" => format!("\\x{}", (0..self.below(40)).map(|_| self.hex(2)).collect::<String>()),
            "char" => ((33 + self.below(59)) as u8 as char).to_string(),
            "name" => self.string(15),
            "text" | "varchar" | "bpchar" => self.string(40),
            "int2" => self.int(16).to_string(),
            "int4" => self.int(32).to_string(),
            "int8" => self.int(64).to_string(),
            "oid" | "xid" | "cid" => self.unsigned(32).to_string(),
            "xid8" => self.unsigned(64).to_string(),
            "tid" => format!("({},{})", self.unsigned(32), self.unsigned(16)),
            "oidvector" | "int2vector" => {
                let (len, bits) = (self.below(20), if typname == "oidvector" { 32 } else { 15 });
                (0..len).map(|_| self.unsigned(bits).to_string()).collect::<Vec<_>>().join(" ")
            }
            "float4" => self.float(true),
            "float8" => self.float(false),
            "numeric" => self.numeric(),
            "date" if self.chance(5) => self.pick(&["infinity", "-infinity", "0044-03-15 BC"]).to_owned(),
            "date" => self.date(),
            "time" => self.time(),
            "timetz" => format!("{}{}", self.time(), self.zone()),
            "timestamp" | "timestamptz" if self.chance(5) => self.pick(&["infinity", "-infinity"]).to_owned(),
            "timestamp" => format!("{}{}{}", self.date(), self.pick(&["T", " "]), self.time()),
            "timestamptz" => format!("{}{}{}{}", self.date(), self.pick(&["T", " "]), self.time(), self.zone()),
            "interval" => format!("{} mon {} days {}", self.int(12), self.int(16), self.time()),
            "uuid" => format!("{}-{}-{}-{}-{}", self.hex(8), self.hex(4), self.hex(4), self.hex(4), self.hex(12)),
            "macaddr" => (0..6).map(|_| self.hex(2)).collect::<Vec<_>>().join(":"),
            "macaddr8" => (0..8).map(|_| self.hex(2)).collect::<Vec<_>>().join("-"),
            "inet" => self.address(false),
            "cidr" => self.address(true),
            "pg_lsn" => format!("{:X}/{:X}", self.unsigned(32), self.unsigned(32)),
            "jsonb" => self.json(3),
            other => panic!("no generator for type {other}"),
        }
    }

    /// An array literal of the given elements' texts.
    pub fn array(&mut self, mut element: impl FnMut(&mut Random) -> String) -> String {
        let len = self.below(5);
        let row = |random: &mut Random, element: &mut dyn FnMut(&mut Random) -> String| {
            let item = |random: &mut Random, element: &mut dyn FnMut(&mut Random) -> String| {
                if random.chance(15) {
                    return "NULL".to_owned();
                }
                format!("\"{}\"", element(random).replace('\\', "\\\\").replace('"', "\\\""))
            };
            let items: Vec<String> = (0..len.max(1)).map(|_| item(random, element)).collect();
            format!("{{{}}}", items.join(","))
        };
        match (len, self.below(4)) {
            (0, _) => "{}".to_owned(),
            (_, 0) => format!("{{{},{}}}", row(self, &mut element), row(self, &mut element)),
            (_, 1) => format!("[3:{}]={}", len + 2, row(self, &mut element)),
            _ => row(self, &mut element),
        }
    }

    /// A range literal over a subtype.
    pub fn range(&mut self, subtype: &str) -> String {
        if self.chance(5) {
            return "empty".to_owned();
        }
        let mut bounds = match subtype {
            "int4" | "int8" | "numeric" => {
                let (low, len) = (self.int(20), self.below(5) as i64);
                [low.to_string(), (low + len).to_string()]
            }
            "date" => [self.date(), self.date()],
            "timestamp" => [0, 1].map(|_| format!("{} {:02}:00:00", self.date(), self.below(24))),
            _ => [0, 1].map(|_| format!("{} {:02}:00:00+00", self.date(), self.below(24))),
        };
        if subtype.starts_with(['d', 't']) {
            bounds.sort();
        }
        for bound in &mut bounds {
            if self.chance(10) {
                bound.clear();
            }
        }
        format!("{}{},{}{}", self.pick(&["[", "("]), bounds[0], bounds[1], self.pick(&["]", ")"]))
    }

    pub fn multirange(&mut self, subtype: &str) -> String {
        let len = self.below(4);
        let ranges: Vec<String> = (0..len).map(|_| self.range(subtype)).collect();
        format!("{{{}}}", ranges.join(","))
    }
}
