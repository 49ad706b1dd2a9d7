//! What a reservation costs: `RedisLedger::reserve` over its one line beside a plain pool of exclusive connections
//! that makes the same call. `cargo bench -p ledger`; the client keeps to core 0, Redis to core 1. With `-- ledger` at the
//! end only ours runs, for a profiler.
//!
//! CPU per reservation is the figure. The rate is what the machine left over at that moment.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a program for people to read"
)]
use deadpool_redis::{Config, Pool, Runtime};
use ledger::{
    Clock, Ledger, Member, Minute, RedisLedger, RedisSettings, Reserve, Reserved, Status, SystemClock, Want,
};
use redis::aio::MultiplexedConnection;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const ROUNDS: usize = 7;
const LENGTH: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(30);
const IN_FLIGHT: [usize; 2] = [1, 64];
const DEPLOYMENTS: usize = 10;
const CANDIDATES: usize = 3;
const LIMIT: u64 = 1_000_000_000;
const HOLD: u64 = 25;
const SCRIPT: &str = include_str!("../../lua/reserve.lua");

/// Who is measured.
#[derive(Clone)]
enum Contender {
    Ledger(Arc<RedisLedger>),
    Pool { pool: Pool, sha: Arc<str> },
}

/// One cell of the table in one round.
#[derive(Debug, Clone, Copy)]
struct Measured {
    per_second: f64,
    client_us: f64,
    redis_us: f64,
}

fn main() {
    if !is_pinned() && pinned_again() {
        return;
    }
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(&server));
}

async fn run(server: &Server) {
    let url = format!("redis://127.0.0.1:{}/", server.port);
    let mut redis =
        redis::Client::open(url.as_str()).unwrap().get_multiplexed_async_connection().await.unwrap();
    let sha: String = redis::cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query_async(&mut redis).await.unwrap();
    let settings = RedisSettings::of_url(&url, "").unwrap();
    // A deadline that a loaded machine does not miss: what is measured are answers of Redis.
    let ledger = RedisLedger::start_for_scenario(settings, Arc::new(SystemClock), PATIENCE).unwrap();
    assert_eq!(ledger.wait_until_shared(PATIENCE).await, Status::Shared);
    let pool = |size: usize| {
        let pool = Config::from_url(url.as_str()).builder().unwrap();
        let pool = pool.max_size(size).runtime(Runtime::Tokio1).build().unwrap();
        Contender::Pool { pool, sha: sha.as_str().into() }
    };
    let mut contenders = vec![("ledger, one line", Contender::Ledger(ledger.clone()))];
    if !std::env::args().any(|argument| argument == "ledger") {
        contenders.extend([("deadpool-redis, 16", pool(16)), ("deadpool-redis, 64", pool(64))]);
    }
    let mut cells: BTreeMap<(usize, usize), Vec<Measured>> = BTreeMap::new();
    for round in 0..=ROUNDS {
        for in_flight in IN_FLIGHT {
            for (place, (_, contender)) in contenders.iter().enumerate() {
                let measured = measure(contender, in_flight, &mut redis).await;
                // The first round opens connections and warms up.
                if round > 0 {
                    cells.entry((in_flight, place)).or_default().push(measured);
                }
            }
        }
    }
    assert_eq!(ledger.tally().by_policy, 0, "every reservation was Redis' own");
    println!("{ROUNDS} rounds of {LENGTH:?}, medians; {CANDIDATES} candidates with rpm and tpm limits\n");
    println!("| in flight | client | reservations/s | client CPU us | Redis CPU us | client CPU to ours |");
    println!("|---|---|---|---|---|---|");
    for ((in_flight, place), measured) in &cells {
        let ours = median(&cells[&(*in_flight, 0)], |cell| cell.client_us);
        let client_us = median(measured, |cell| cell.client_us);
        println!(
            "| {in_flight} | {} | {:.0} | {client_us:.1} | {:.1} | {:.2} |",
            contenders[*place].0,
            median(measured, |cell| cell.per_second),
            median(measured, |cell| cell.redis_us),
            client_us / ours
        );
    }
}

/// Lets so many tasks reserve one after the other for a while.
async fn measure(contender: &Contender, in_flight: usize, redis: &mut MultiplexedConnection) -> Measured {
    let members: Arc<[Member]> = members().into();
    let (redis_before, client_before, began) =
        (redis_cpu_us(redis).await, client_cpu_us(), SystemClock.instant());
    let mut tasks = JoinSet::new();
    for task in 0..in_flight {
        let (contender, members) = (contender.clone(), Arc::clone(&members));
        tasks.spawn(async move {
            let mut done = 0;
            while began.elapsed() < LENGTH {
                let first = task + done;
                let ranked = (0..CANDIDATES).map(|place| &members[(first + place) % DEPLOYMENTS]);
                let is_done = match &contender {
                    Contender::Ledger(ledger) => by_ledger(ledger, ranked).await,
                    Contender::Pool { pool, sha } => by_pool(pool, sha, ranked).await,
                };
                done += usize::from(is_done);
            }
            done
        });
    }
    let done: usize = tasks.join_all().await.into_iter().sum();
    let (took, client_us) = (began.elapsed(), client_cpu_us() - client_before);
    let redis_us = redis_cpu_us(redis).await - redis_before;
    let done = f64::from(u32::try_from(done).unwrap());
    Measured { per_second: done / took.as_secs_f64(), client_us: client_us / done, redis_us: redis_us / done }
}

async fn by_ledger(ledger: &RedisLedger, ranked: impl Iterator<Item = &Member>) -> bool {
    let want = |member: &Member| Want {
        member: member.clone(),
        rpm_limit: Some(LIMIT),
        tpm_limit: Some(LIMIT),
        tpm_hold: HOLD,
        must_fit: false,
    };
    let reserve = Reserve { wants: ranked.map(want).collect(), ignore_cooldown: false };
    matches!(ledger.reserve(reserve).await, Reserved::Granted { index: 0, .. })
}

/// False where the client's own time-out of half a second struck: on a loaded machine it does.
async fn by_pool(pool: &Pool, sha: &str, ranked: impl Iterator<Item = &Member>) -> bool {
    let minute = Minute::of(SystemClock.unix_ms()).hh_mm();
    let mut call = redis::cmd("EVALSHA");
    call.arg(sha).arg(5 * CANDIDATES);
    for Member { id, model } in ranked {
        call.arg(format!("{id}:{model}:rpm:{minute}")).arg(format!("{id}:{model}:tpm:{minute}"));
        for name in ["cooldown", "trips", "probe"] {
            call.arg(format!("deployment:{id}:{name}"));
        }
    }
    // -1: the minute is taken as it is named. Nothing is on probation, so the token is not used.
    call.arg(0).arg(-1).arg("bench:1").arg(15_000);
    for _ in 0..CANDIDATES {
        call.arg(LIMIT).arg(LIMIT).arg(HOLD);
    }
    let Ok(mut connection) = pool.get().await else { return false };
    let answer = call.query_async::<Vec<i64>>(&mut connection).await;
    let is_taken = answer.as_ref().err().is_none_or(redis::RedisError::is_timeout);
    assert!(is_taken, "not the call that the script takes: {answer:?}");
    answer.is_ok_and(|answer| answer[0] == 1)
}

fn members() -> Vec<Member> {
    let id = |number| format!("2f1c0a9be4d7{number:02}").into();
    (0..DEPLOYMENTS).map(|number| Member { id: id(number), model: "openai/gpt-4o".into() }).collect()
}

fn median(measured: &[Measured], of: impl Fn(&Measured) -> f64) -> f64 {
    let mut values: Vec<f64> = measured.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// CPU time of this program's one thread that works.
fn client_cpu_us() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells of its scheduling");
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1000.0
}

/// CPU time of the server's thread that runs commands.
async fn redis_cpu_us(redis: &mut MultiplexedConnection) -> f64 {
    let info: String = redis::cmd("INFO").arg("cpu").query_async(redis).await.unwrap();
    let seconds = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("Redis 6.2 or later");
        line.trim().parse::<f64>().unwrap()
    };
    (seconds("used_cpu_user_main_thread:") + seconds("used_cpu_sys_main_thread:")) * 1e6
}

fn is_pinned() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .any(|line| line.strip_prefix("Cpus_allowed_list:").is_some_and(|cores| cores.trim() == "0"))
}

/// Runs this program anew on core 0; false if that cannot be had.
fn pinned_again() -> bool {
    let program = std::env::current_exe().unwrap();
    let ran = Command::new("taskset").args(["-c", "0"]).arg(program).args(std::env::args().skip(1)).status();
    if !ran.as_ref().is_ok_and(std::process::ExitStatus::success) {
        println!("not pinned to a core ({ran:?}): the figures are of less use\n");
        return false;
    }
    true
}

/// A `redis-server` on core 1, that ends with the program.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new("taskset")
            .args(["-c", "1", "redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .spawn()
            .expect("taskset and redis-server");
        // From here on dropping it ends the process.
        let server = Self { child, port };
        let client = redis::Client::open(format!("redis://127.0.0.1:{port}/")).unwrap();
        let answers = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            client.get_connection().is_ok()
        });
        assert!(answers, "redis-server did not begin to answer");
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
