//! Counters of production, scraped from its processes.

use control_plane::{
    prelude::{AssetId, Timestamp},
    sdk::{SampleQuery, SampleSource, Series},
};
use testbed::{metrics::Scraper, production::JOB};

use crate::town::*;

/// Returns the request counters of an asset's processes, over all time.
async fn requests(scraper: &Scraper, asset: &str, labels: &[(&str, &str)]) -> Vec<Series> {
    let query = SampleQuery {
        metric: "http_requests_total".into(),
        labels: labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        asset: AssetId::new(asset).unwrap(),
        from: Timestamp::UNIX_EPOCH,
        to: Timestamp::MAX,
    };
    scraper.read(query).await.unwrap()
}

/// Returns the total number of answers that an asset's processes have counted; none while a process does not answer.
async fn counted(scraper: &Scraper, asset: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let series = requests(scraper, asset, labels).await;
    let last = |series: &Series| series.samples.last().map(|(_, value)| *value);
    let counts = series.iter().map(last).collect::<Option<Vec<f64>>>()?;
    (!counts.is_empty()).then(|| counts.iter().sum())
}

#[tokio::test]
async fn tasks_and_balancers_count_the_answers_that_a_client_saw() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let (_global, address) = town.global(&["eu"]).await;
    cell.put_job(JOB, &job(3, "3"), &by_hand()).await.unwrap();
    settled(&cell).await;
    let scraper = Scraper::start(town.dir.path().into());
    let mut load = hammer(address);
    passed(&mut load, 300).await;
    let log = load.stop().await;
    let saw = |code: u16| {
        let same = log.iter().filter(|attempt| attempt.status == Some(code));
        same.count() as f64
    };
    assert!(saw(500) > 0.0);
    for asset in ["job/eu", "balancer/eu", "global"] {
        for code in [200, 500] {
            until("production has counted the client's answers", async || {
                let label = code.to_string();
                let labels = [("code", label.as_str())];
                let counted = counted(&scraper, asset, &labels).await;
                (counted == Some(saw(code))).then_some(())
            })
            .await;
        }
    }
    let bad = [("version", "3"), ("code", "500")];
    assert_eq!(requests(&scraper, "job/eu", &bad).await.len(), 3);
    assert_eq!(requests(&scraper, "balancer/eu", &bad).await, []);
    assert_eq!(requests(&scraper, "job/us", &[]).await, []);
}

#[tokio::test]
async fn counters_of_a_process_that_does_not_answer_are_missing_and_not_zero() {
    let town = Town::new();
    let cell = town.cluster("eu").await;
    let scraper = Scraper::start(town.dir.path().into());
    let zero = [("code", "500")];
    until("both counters are zero", async || {
        let both = (
            counted(&scraper, "job/eu", &zero).await,
            counted(&scraper, "balancer/eu", &zero).await,
        );
        (both == (Some(0.0), Some(0.0))).then_some(())
    })
    .await;
    kill(cell.pid());
    until("the counters are missing", async || {
        let silent = async |asset| {
            let series = requests(&scraper, asset, &zero).await;
            series.iter().filter(|it| it.samples.is_empty()).count()
        };
        ((silent("job/eu").await, silent("balancer/eu").await) == (3, 1)).then_some(())
    })
    .await;
    // The new processes report their counters again.
    town.cluster("eu").await;
    until("the counters are known again", async || {
        let series = requests(&scraper, "job/eu", &zero).await;
        let known = series.iter().all(|it| !it.samples.is_empty());
        (known && series.len() >= 3).then_some(())
    })
    .await;
}
