//! Lending and taking back, against real servers: limits, waiting, death, and never anybody else's leftovers.

mod common;

use std::time::{Duration, Instant};

use common::Server;
use pool::{
    ClientLogin, Login, NodeTarget, OwnConns, PoolConfig, PoolError, PooledConn, Pools, Secret, Size, StatementKey,
};
use wire::{backend, put};

struct Lender {
    server: Server,
    pools: Pools,
    target: NodeTarget,
    login: ClientLogin,
}

impl Lender {
    fn new(config: PoolConfig) -> Lender {
        let server = Server::start();
        let target = NodeTarget::new("127.0.0.1", server.port, common::DATABASE);
        let pools = Pools::new(config, None);
        let login = pools.admit_unseen(common::USER, Secret::None);
        Lender { server, pools, target, login }
    }

    async fn get(&self) -> PooledConn {
        self.get_for(None).await
    }

    async fn get_for(&self, asker: Option<&pool::Asker>) -> PooledConn {
        self.wished(pool::Wish { asker, ..Default::default() }).await
    }

    async fn wished(&self, wish: pool::Wish<'_>) -> PooledConn {
        self.pools.get_for(&self.target, &self.login, wish).await.unwrap()
    }

    /// Until `open` connections are open, `idle` of them idle.
    async fn until(&self, open: usize, idle: usize) {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let stats = self.pools.stats();
            let now = (stats[0].open, stats[0].idle);
            if now == (open, idle) {
                return;
            }
            assert!(Instant::now() < deadline, "still {now:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn config(size: usize) -> PoolConfig {
    PoolConfig { size: Size::of_one(size), wait_timeout: Duration::from_secs(10), ..PoolConfig::default() }
}

async fn one(conn: &mut PooledConn, sql: &str) -> String {
    conn.simple(sql).await.unwrap()[0][0].clone().expect("not null")
}

#[tokio::test]
async fn the_last_used_is_lent_first_and_the_size_holds() {
    let lender = Lender::new(PoolConfig { wait_timeout: Duration::from_millis(200), ..config(2) });
    assert!(lender.pools.try_get(&lender.target, &lender.login).is_none(), "nothing is open yet");
    let (a, b) = (lender.get().await, lender.get().await);
    let pids = (a.pid(), b.pid());
    let started = Instant::now();
    let error = lender.pools.get(&lender.target, &lender.login).await.err().expect("both are lent");
    assert!(matches!(error, PoolError::Exhausted { max: 2, .. }));
    assert!(started.elapsed() >= Duration::from_millis(200));
    assert_eq!(error.sqlstate(), "53300");
    assert!(error.to_string().contains("all 2 are in use"), "{error}");
    drop(b);
    drop(a);
    lender.until(2, 2).await;
    let conn = lender.get().await;
    assert_eq!(conn.pid(), pids.0);
    let conn2 = lender.pools.try_get(&lender.target, &lender.login).expect("an idle one is left");
    assert_eq!(conn2.pid(), pids.1);
    conn.close();
    lender.until(1, 0).await;
    let stats = &lender.pools.stats()[0];
    assert_eq!((&*stats.user, stats.max, stats.waiting), ("postgres", 2, 0));
}

#[tokio::test]
async fn one_question_can_be_asked_where_all_are_lent() {
    let lender = Lender::new(PoolConfig { wait_timeout: Duration::from_millis(200), ..config(1) });
    let beside = || lender.pools.get_beside(&lender.target, &lender.login);
    let all = lender.get().await;
    let mut asks = beside().await.unwrap();
    assert_ne!(asks.pid(), all.pid());
    assert_eq!(one(&mut asks, "select 1").await, "1");
    let error = beside().await.err().expect("there is one");
    assert!(matches!(error, PoolError::Exhausted { max: 1, .. }));
    drop(asks);
    drop(beside().await.unwrap());
    let (stats, of_questions) = (lender.pools.stats(), lender.pools.stats_beside());
    assert_eq!((stats.len(), stats[0].open), (1, 1));
    assert_eq!((of_questions.len(), of_questions[0].open, of_questions[0].idle), (1, 1, 1));
    let pid = all.pid();
    drop(all);
    lender.until(1, 1).await;
    assert_eq!(beside().await.unwrap().pid(), pid, "one that is idle is as good");
}

#[tokio::test]
async fn users_and_databases_do_not_share() {
    let lender = Lender::new(config(2));
    let mut admin = lender.get().await;
    admin.simple("create role other login").await.unwrap();
    admin.simple("create database elsewhere").await.unwrap();
    drop(admin);
    let who = "select current_user || ' ' || current_database()";
    let other = lender.pools.admit_unseen("other", Secret::None);
    let elsewhere = NodeTarget { database: "elsewhere".into(), ..lender.target.clone() };
    assert_eq!(one(&mut lender.pools.get(&lender.target, &other).await.unwrap(), who).await, "other postgres");
    assert_eq!(one(&mut lender.pools.get(&elsewhere, &lender.login).await.unwrap(), who).await, "postgres elsewhere");
    assert_eq!(one(&mut lender.get().await, who).await, "postgres postgres");
    assert_eq!(lender.pools.stats().len(), 3);
}

#[tokio::test]
async fn connections_of_a_client_home_could_not_be_asked_about_end_with_him() {
    let lender = Lender::new(config(2));
    let mut watcher = lender.get().await;
    let others =
        "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()";
    for lent_at_the_end in [false, true] {
        let client = lender.pools.admit_unseen(common::USER, Secret::None);
        let clone = client.clone();
        let (first, second) = (
            lender.pools.get(&lender.target, &client).await.unwrap(),
            lender.pools.get(&lender.target, &clone).await.unwrap(),
        );
        drop(client);
        drop(first);
        assert_eq!(one(&mut watcher, others).await, "2", "his clone may want them yet");
        let lent = lent_at_the_end.then_some(second);
        drop(clone);
        drop(lent);
        let deadline = Instant::now() + Duration::from_secs(10);
        while one(&mut watcher, others).await != "0" {
            assert!(Instant::now() < deadline, "they stay");
        }
    }
    assert_eq!(lender.pools.stats().len(), 1);
}

#[tokio::test]
async fn waiters_are_served_in_turn_and_those_who_left_are_skipped() {
    let lender = Lender::new(config(1));
    let held = lender.get().await;
    let (sender, mut order) = tokio::sync::mpsc::channel(10);
    let mut tasks = Vec::new();
    for n in 0..10 {
        let (pools, target, login, sender) =
            (lender.pools.clone(), lender.target.clone(), lender.login.clone(), sender.clone());
        tasks.push(tokio::spawn(async move {
            let _conn = pools.get(&target, &login).await.unwrap();
            sender.send(n).await.unwrap();
        }));
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(lender.pools.stats()[0].waiting, 10);
    tasks[0].abort();
    tasks[4].abort();
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(held);
    let mut served = Vec::new();
    while served.len() < 8 {
        served.push(order.recv().await.unwrap());
    }
    assert_eq!(served, [1, 2, 3, 5, 6, 7, 8, 9]);
    lender.until(1, 1).await;
}

#[tokio::test]
async fn waiters_get_the_place_of_a_closed_connection() {
    let lender = Lender::new(config(1));
    let held = lender.get().await;
    let (first, ()) = tokio::join!(lender.get(), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        held.close();
    });
    drop(first);
    lender.until(1, 1).await;
}

#[tokio::test]
async fn a_dead_idle_connection_is_replaced() {
    let lender = Lender::new(config(3));
    let (victim, mut admin) = (lender.get().await, lender.get().await);
    let pid = victim.pid();
    drop(victim);
    admin.simple(&format!("select pg_terminate_backend({pid}, 5000)")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut fresh = lender.get().await;
    assert_ne!(fresh.pid(), pid);
    assert_eq!(one(&mut fresh, "select 1").await, "1");
    lender.until(2, 0).await;
}

#[tokio::test]
async fn a_restarted_node_is_used_again() {
    let mut lender = Lender::new(config(2));
    drop((lender.get().await, lender.get().await));
    lender.until(2, 2).await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    // This blocks the runtime, so it learns nothing of the lost connections by itself.
    lender.server.stop();
    let error = lender.pools.get(&lender.target, &lender.login).await.err().expect("the node is down");
    assert!(matches!(error, PoolError::Connect { .. }), "{error}");
    lender.server.restart();
    for _ in 0..3 {
        assert_eq!(one(&mut lender.get().await, "select 1").await, "1");
    }
}

#[tokio::test]
async fn what_is_in_doubt_is_not_lent_again() {
    type Mess = fn(&mut PooledConn);
    let lender = Lender::new(config(1));
    let messes: [(&str, &str, Mess); 8] = [
        ("an open transaction", "begin", |_| {}),
        ("a failed transaction", "begin; select 1/0", |_| {}),
        ("an unread reply", "select 1", |conn| {
            put::query(conn.out(), "select 1");
            conn.sent_sync();
        }),
        ("an undeclared statement", "select 1", |conn| put::query(conn.out(), "select 1")),
        ("work without a sync", "select 1", |conn| put::parse(conn.out(), "", "select 1", &[])),
        ("half a message", "select 1", |conn| conn.out().extend_from_slice(b"d\0\0\0\x20half")),
        ("a long statement", "select 1", |conn| {
            put::query(conn.out(), "select pg_sleep(600)");
            conn.sent_sync();
        }),
        ("a mark", "select 1", |conn| conn.mark_broken()),
    ];
    for (name, sql, mess) in messes {
        for flushed in [true, false] {
            let mut conn = lender.get().await;
            let _ = conn.simple(sql).await;
            mess(&mut conn);
            if flushed {
                assert_eq!(conn.flush().await.is_err(), conn.is_broken(), "{name}");
            }
            let pid = conn.pid();
            drop(conn);
            // The pool's only place must come free, also when a statement of ten minutes was left behind.
            let mut next = lender.get().await;
            assert_ne!(next.pid(), pid, "{name}, flushed: {flushed}");
            assert_eq!(one(&mut next, "select 'mine'").await, "mine", "{name}");
            let still = format!(
                "select count(*) from pg_stat_activity where pid = {pid} and state = 'active' and query like '%sleep%'"
            );
            for attempt in 0.. {
                match &*one(&mut next, &still).await {
                    "0" => break,
                    _ if attempt < 100 => tokio::time::sleep(Duration::from_millis(20)).await,
                    _ => panic!("{name}: still running"),
                }
            }
        }
    }
    // And the clean case does give the same connection again, or all of the above means nothing.
    let mut conn = lender.get().await;
    let pid = conn.pid();
    put::query(conn.out(), "select 1");
    conn.sent_sync();
    conn.flush().await.unwrap();
    while conn.frame().await.unwrap().tag() != b'Z' {}
    drop(conn);
    assert_eq!(lender.get().await.pid(), pid);
}

#[tokio::test]
async fn a_tainted_connection_is_reset_before_it_is_lent() {
    let lender = Lender::new(config(1));
    let mut conn = lender.get().await;
    let pid = conn.pid();
    conn.simple(
        "create temp table secret as select 42; set search_path to nowhere; select pg_advisory_lock(7);
         prepare p as select 1; listen x; declare c cursor with hold for select 1;
         select set_config('my.var', 'x', false)",
    )
    .await
    .unwrap();
    conn.settings.set("search_path", "nowhere");
    conn.statements.insert(StatementKey::of("select 1", &[]));
    conn.tainted = true;
    drop(conn);
    let mut next = lender.get().await;
    assert_eq!(next.pid(), pid, "reset, not replaced");
    assert!(!next.tainted && next.settings.is_empty() && next.statements.is_empty());
    let left = "select concat_ws(' ', to_regclass('secret'), current_setting('search_path'),
        (select count(*) from pg_locks where locktype = 'advisory'), (select count(*) from pg_prepared_statements),
        (select count(*) from pg_listening_channels()), (select count(*) from pg_cursors),
        current_setting('my.var', true))";
    assert_eq!(one(&mut next, left).await.trim_end(), "\"$user\", public 0 0 0 0");
    // A reset that fails closes.
    next.simple("select 1").await.unwrap();
    next.tainted = true;
    next.simple("begin").await.unwrap();
    drop(next);
    assert_ne!(lender.get().await.pid(), pid);
}

#[tokio::test]
async fn what_a_connection_remembers_keeps_it_from_others_as_long_as_somebody_may_ask() {
    let lender = Lender::new(config(5));
    let asker = pool::Asker::default();
    let mut conn = lender.get().await;
    conn.sequences = pool::Remembers::of(&asker);
    let pid = conn.pid();
    drop(conn);
    let other = lender.get().await;
    assert_ne!(other.pid(), pid, "another may be opened");
    assert_eq!(lender.get_for(Some(&asker)).await.pid(), pid);
    drop(asker);
    assert_eq!(lender.get().await.pid(), pid, "nobody can ask for them any more");
    assert_eq!(lender.pools.stats()[0].open, 2);
}

#[tokio::test]
async fn an_idle_connection_with_the_settings_wished_for_goes_first() {
    let lender = Lender::new(config(3));
    let mut held = vec![lender.get().await, lender.get().await, lender.get().await];
    let wanted = pool::Settings::default().with("plan_cache_mode", "force_generic_plan");
    let sql = held[0].settings_to(&wanted).expect("it has others");
    held[0].simple(&sql).await.unwrap();
    let pids: Vec<_> = held.iter().map(|conn| conn.pid()).collect();
    held.into_iter().for_each(drop);
    let wish = pool::Wish { settings: Some(wanted.fingerprint()), ..Default::default() };
    let mut has = lender.wished(wish).await;
    assert_eq!((has.pid(), has.settings_to(&wanted)), (pids[0], None), "not the one that was used last");
    assert_eq!(one(&mut has, "show plan_cache_mode").await.trim_end(), "force_generic_plan");
    let mut other = lender.wished(wish).await;
    assert_eq!(other.pid(), pids[2], "any is better than none");
    assert!(other.settings_to(&wanted).is_some());
    drop(has);
    assert_eq!(lender.get().await.pid(), pids[0], "nobody says which");
}

#[tokio::test]
async fn a_reset_leaves_a_sessions_values_of_sequences() {
    let lender = Lender::new(config(2));
    let mut conn = lender.get().await;
    conn.simple(
        "create sequence if not exists kept; select nextval('kept'); create temp table secret as select 42;
         set search_path to nowhere; select pg_advisory_lock(7); prepare p as select 1; listen x; set default_transaction_read_only = on",
    )
    .await
    .unwrap();
    let asker = pool::Asker::default();
    (conn.sequences, conn.tainted) = (pool::Remembers::of(&asker), true);
    let pid = conn.pid();
    drop(conn);
    let mut next = lender.get_for(Some(&asker)).await;
    assert_eq!((next.pid(), next.tainted), (pid, false), "the session waits for its own");
    assert!(next.sequences.are_of(&asker));
    let left =
        "select concat_ws(' ', currval('kept') = lastval(), to_regclass('secret'), current_setting('search_path'),
        (select count(*) from pg_locks where locktype = 'advisory'), (select count(*) from pg_prepared_statements),
        (select count(*) from pg_listening_channels()), current_setting('default_transaction_read_only'))";
    assert_eq!(one(&mut next, left).await, "t \"$user\", public 0 0 0 off");
}

#[tokio::test]
async fn prepared_statements_and_settings_stay_with_the_connection() {
    let lender = Lender::new(PoolConfig { max_prepared: 2, ..config(1) });
    let key = StatementKey::of("select $1", &[23]);
    let mut conn = lender.get().await;
    let (name, _) = conn.statements.insert(key);
    put::parse(conn.out(), &name, "select $1", &[23]);
    put::sync(conn.out());
    conn.sent_sync();
    conn.flush().await.unwrap();
    while conn.frame().await.unwrap().tag() != b'Z' {}
    drop(conn);
    let mut conn = lender.get().await;
    let name = conn.statements.get(&key).expect("still there");
    put::bind(conn.out(), "", &name, &[], [Some(&b"5"[..])].into_iter(), &[]);
    put::execute(conn.out(), "", 0);
    put::sync(conn.out());
    conn.sent_sync();
    conn.flush().await.unwrap();
    let mut value = None;
    while conn.outstanding() > 0 {
        let frame = conn.frame().await.unwrap();
        if frame.tag() == b'D' {
            value = backend::parse_data_row(frame.body()).unwrap()[0].map(<[u8]>::to_vec);
        }
    }
    assert_eq!(value.as_deref(), Some(&b"5"[..]));
    conn.statements.insert(StatementKey::of("a", &[]));
    let (_, evicted) = conn.statements.insert(StatementKey::of("b", &[]));
    assert_eq!(evicted, Some(name), "max_prepared holds");
}

#[tokio::test]
async fn a_statement_whose_parse_was_passed_over_is_prepared_again() {
    let lender = Lender::new(config(1));
    let mut conn = lender.get().await;
    let key = StatementKey::of("behind", &[]);
    let ask = |conn: &mut PooledConn| {
        let (name, _) = conn.prepare(key, "select 7", &[]);
        put::bind(conn.out(), "", &name, &[], std::iter::empty(), &[]);
        put::execute(conn.out(), "", 0);
        put::sync(conn.out());
        conn.sent_sync();
    };
    // The error of what stands in front has it passed over; that of an earlier round trip does not.
    for (own_sync, there) in [(false, false), (true, true)] {
        conn.simple("discard all").await.unwrap();
        conn.statements.clear();
        for text in ["select 1", "select 1 / (random() * 0)::int"] {
            put::parse(conn.out(), "", text, &[]);
            put::bind(conn.out(), "", "", &[], std::iter::empty(), &[]);
            put::execute(conn.out(), "", 0);
        }
        if own_sync {
            put::sync(conn.out());
            conn.sent_sync();
        }
        ask(&mut conn);
        conn.flush().await.unwrap();
        while conn.outstanding() > 0 {
            conn.frame().await.unwrap();
        }
        assert_eq!(conn.statements.get(&key).is_some(), there);
        ask(&mut conn);
        conn.flush().await.unwrap();
        let mut tags = Vec::new();
        while conn.outstanding() > 0 {
            tags.push(conn.frame().await.unwrap().tag());
        }
        assert!(tags.contains(&b'D') && !tags.contains(&b'E'), "{tags:?}");
    }
}

#[tokio::test]
async fn a_node_without_room_gets_some_from_other_roles_idle_connections() {
    let server = Server::options().set("max_connections = 9").start();
    let target = NodeTarget::new("127.0.0.1", server.port, common::DATABASE);
    let pools = Pools::new(config(20), None);
    let login = |name: &str| pools.admit_unseen(name, Secret::None);
    let mut boss = pools.get(&target, &login(common::USER)).await.unwrap();
    boss.simple("create role anna login; create role berta login").await.unwrap();
    boss.close();
    let (anna, berta) = (login("anna"), login("berta"));
    let mut lent = Vec::new();
    while let Ok(conn) = pools.get(&target, &anna).await {
        lent.push(conn);
    }
    assert!(lent.len() >= 4, "{}", lent.len());
    let full = pools.get(&target, &berta).await.err().expect("there is no room, and nobody idle");
    assert_eq!(full.sqlstate(), "53300");
    lent.truncate(2);
    let mut got = Vec::new();
    for _ in 0..3 {
        got.push(pools.get(&target, &berta).await.unwrap());
    }
    assert!(lent.iter_mut().all(|c| !c.is_broken()), "who is at work is left alone");
}

#[tokio::test]
async fn idle_connections_are_reaped_and_empty_pools_forgotten() {
    let lender = Lender::new(PoolConfig { idle_timeout: Duration::from_millis(300), ..config(3) });
    let (a, b) = (lender.get().await, lender.get().await);
    drop(a);
    lender.pools.reap().await;
    lender.until(2, 1).await;
    let reaper =
        lender.pools.spawn_reaper(OwnConns::new(&PoolConfig::default(), Login::new(common::USER, Secret::None)));
    lender.until(1, 0).await;
    drop(b);
    let deadline = Instant::now() + Duration::from_secs(10);
    while !lender.pools.stats().is_empty() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    lender.get().await;
    assert!(!reaper.is_finished());
    let Lender { server: _server, pools, .. } = lender;
    drop(pools);
    tokio::time::timeout(Duration::from_secs(5), reaper).await.expect("it ends with the pools").unwrap();
}

#[tokio::test]
async fn messages_to_an_idle_connection_do_not_disturb() {
    let lender = Lender::new(config(2));
    let (mut admin, mut conn) = (lender.get().await, lender.get().await);
    let pid = conn.pid();
    conn.simple("listen x").await.unwrap();
    drop(conn);
    for _ in 0..100 {
        admin.simple("notify x, 'something of some length'").await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut conn = lender.get().await;
    assert_eq!(conn.pid(), pid);
    assert!(conn.rbuf().is_empty(), "they were taken out before lending");
    assert_eq!(one(&mut conn, "select 1").await, "1");
}

/// Each task asks for tokens of its own, and many give up in the middle. Nobody may ever see another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_gets_anothers_rows() {
    let lender = Lender::new(config(4));
    let mut tasks = Vec::new();
    for task in 0..64u32 {
        let (pools, target, login) = (lender.pools.clone(), lender.target.clone(), lender.login.clone());
        tasks.push(tokio::spawn(async move {
            let mut answered = 0;
            for n in 0..200u32 {
                let token = format!("{task}-{n}");
                let ask = async {
                    let mut conn = pools.get(&target, &login).await.unwrap();
                    conn.simple(&format!("select '{token}'")).await.unwrap()[0][0].clone()
                };
                // Every tenth is given up at some moment of its life.
                let patience = match n % 10 {
                    3 => Duration::from_micros(u64::from(task * n % 3000)),
                    _ => Duration::from_secs(60),
                };
                if let Ok(answer) = tokio::time::timeout(patience, ask).await {
                    assert_eq!(answer, Some(token));
                    answered += 1;
                }
            }
            answered
        }));
    }
    let mut answered = 0;
    for task in tasks {
        answered += task.await.unwrap();
    }
    assert!(answered >= 64 * 180, "{answered} answers");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let stats = lender.pools.stats().remove(0);
        assert!(stats.open <= 4);
        if stats.open == stats.idle && stats.waiting == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{stats:?}: a place was lost");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
