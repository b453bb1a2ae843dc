//! The process that is killed: a control plane as a service would embed it, with reports to the test.

use std::{
    env, io,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use control_plane::prelude::*;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    signal::unix::{SignalKind, signal},
    time::Instant,
};

use crate::{
    DEADLINE,
    intent::MANIFEST,
    production::{Answer, Question, SOCKET, Thing},
    remembered::{Remembered, Sealed, owned},
};

pub(crate) const PARTITION: &str = "kills";
/// Environment variable with the number of the process run.
pub(crate) const LIFE: &str = "KILLS_LIFE";
/// Prefix of each line that is meant for the test.
pub(crate) const PREFIX: &str = "says ";
/// Interval between two status reports.
const EVERY: Duration = Duration::from_millis(20);

/// A report of the process to the test.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The durable state that the process found, before anything ran.
    Found(Remembered),
    /// The state of enforcement.
    Stands(Stands),
}

/// State of enforcement, as the process sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Stands {
    /// Time for which this process has enforced.
    pub(crate) enforced: Duration,
    /// Total time for which the partition has been owned, according to the store.
    pub(crate) owned: Duration,
    /// Incarnation in force; `None` if there is none yet.
    pub(crate) latest: Option<Sealed>,
    pub(crate) assets: u32,
    pub(crate) unsettled: u32,
    /// Assets with a push of unknown outcome; of many, the first.
    pub(crate) unknown: Vec<String>,
    pub(crate) orphans: Vec<String>,
    /// Whether production is as intended, and why not; for the failure message.
    pub(crate) why: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) version: u64,
}

impl Message for Service {
    const TYPE: &'static str = "kills.v1.Service";
}

/// Generator that turns the manifest into assets.
struct Model;

impl Generator for Model {
    fn info(&self) -> GeneratorInfo {
        GeneratorInfo::whole("model")
            .reads(MANIFEST)
            .makes::<Service>()
    }

    fn generate(&self, input: &Input<'_>, out: &mut Drafts) -> Result<(), Problems> {
        for document in input.documents() {
            let versions: std::collections::BTreeMap<String, u64> = document.read()?;
            for (name, version) in versions {
                let asset = Asset::builder(AssetId::new(&name)?).payload(&Service { version })?;
                out.asset(asset, document.provenance())?;
            }
        }
        Ok(())
    }
}

/// Plugin that reaches production through its socket.
struct Remote {
    socket: PathBuf,
    life: u64,
}

impl Remote {
    async fn ask(&self, question: Question) -> io::Result<Answer> {
        let mut stream = UnixStream::connect(&self.socket).await?;
        let mut line = serde_json::to_vec(&question)?;
        line.push(b'\n');
        stream.write_all(&line).await?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await?;
        Ok(serde_json::from_slice(&answer)?)
    }
}

#[async_trait]
impl AssetPlugin for Remote {
    async fn diff(&self, request: DiffRequest) -> Result<Diff, plugin::Error> {
        let asset = request.asset()?;
        let question = Question::Look {
            asset: asset.id_str().to_owned(),
        };
        let answer = self.ask(question).await;
        let there = match answer.map_err(|error| plugin::Error::transient(error.to_string()))? {
            Answer::There(there) => there,
            other => return Err(plugin::Error::permanent(format!("{other:?}"))),
        };
        let wanted = asset.payload::<Service>().ok();
        if there == wanted.map(|service| Thing::At(service.version)) {
            return Ok(Diff::in_sync());
        }
        let change = Change::new(&asset, "replace it", vec![], Effects::default());
        Ok(Diff::differs(change))
    }

    async fn push(&self, request: PushRequest) -> Result<Pushed, plugin::Error> {
        let asset = request.asset()?;
        let service = asset.payload::<Service>();
        let question = Question::Push {
            asset: asset.id_str().to_owned(),
            version: service
                .map_err(|error| plugin::Error::permanent(error.to_string()))?
                .version,
            life: self.life,
        };
        match self.ask(question).await {
            Ok(Answer::Done) => Ok(Pushed::Done),
            Ok(_) => Err(plugin::Error::transient("production is busy")),
            Err(error) => Err(plugin::Error::unknown(error.to_string())),
        }
    }
}

/// Configuration with short waits, because production is small and close.
fn config() -> Config {
    Config::default()
        .drift_period(Duration::from_secs(2))
        .backoff_base(Duration::from_millis(100))
        .backoff_cap(Duration::from_millis(500))
        .breaker_wait(Duration::from_millis(500))
}

fn plane(dir: &Path, store: SqliteStore) -> ControlPlane {
    let remote = Remote {
        socket: dir.join(SOCKET),
        life: env::var(LIFE).unwrap().parse().unwrap(),
    };
    let plugin = Plugin::new(remote).adjust(|config| {
        config.push_deadline = DEADLINE;
        (config.diffs, config.pushes) = (32, 32);
    });
    ControlPlane::builder(PARTITION)
        .store(store)
        .source(YamlFile::watch(dir.join(MANIFEST)))
        .generator(Model)
        .validators(validators::standard())
        .asset_plugin::<Service>(plugin)
        .checks(|base| {
            ServiceBuilder::new()
                .layer(DependencySolverLayer::standard())
                .service(base)
        })
        .config(config())
        .build()
        .unwrap()
}

/// Runs until it is asked to stop, or killed.
pub(crate) async fn live(dir: &Path) {
    let mut term = signal(SignalKind::terminate()).unwrap();
    let store = SqliteStore::open(dir.join("state")).unwrap();
    report(&Report::Found(Remembered::read(&store).await));
    let plane = plane(dir, store.clone());
    let handle = plane.handle();
    let shutdown = async move {
        term.recv().await;
    };
    tokio::select! {
        ended = plane.run(shutdown) => ended.unwrap(),
        () = report_state(handle, store) => {}
    }
}

/// Reports the state of enforcement at regular intervals.
async fn report_state(handle: Handle, store: SqliteStore) {
    let mut began = None;
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        let status = handle.status().await.unwrap();
        let Some(enforcement) = status.enforcement else {
            continue;
        };
        let began = *began.get_or_insert_with(Instant::now);
        let text = |ids: Vec<AssetId>| ids.iter().map(|id| id.to_string()).collect();
        let unknown = enforcement.unknown.into_iter().map(|it| it.asset);
        let latest = match handle.latest().await {
            Ok(latest) => Some(latest),
            Err(control_plane::Error::NoIncarnation(_)) => None,
            Err(error) => panic!("{}", control_plane::sdk::with_causes(&error)),
        };
        report(&Report::Stands(Stands {
            enforced: began.elapsed(),
            owned: owned(&store).await,
            latest: latest.map(|latest| Sealed {
                no: latest.no().0,
                digest: latest.header().digest.to_string(),
            }),
            assets: enforcement.assets,
            unsettled: enforcement.unsettled,
            unknown: text(unknown.collect()),
            orphans: text(enforcement.orphans),
            why: format!("{:?}", status.intended),
        }));
    }
}

/// Writes one line to the test. Panics if the test is gone, because the process then has no purpose.
fn report(report: &Report) {
    let line = serde_json::to_string(report).unwrap();
    let mut out = io::stdout().lock();
    writeln!(out, "{PREFIX}{line}")
        .and_then(|()| out.flush())
        .unwrap();
}
