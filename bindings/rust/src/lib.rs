//! A saved mixling model: from a text to its labels, by libmixling.
//!
//! A [`Model`] never changes, and any number of threads may share it. Each thread has its own [`Worker`], which remembers
//! the words that it has met.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::{error, fmt, fs, io, ptr};

/// Why a model cannot be loaded, or cannot read a text.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read.
    File(String, io::Error),
    /// The file is no mixling model, or was changed.
    Damaged(String),
    /// A sound model, perhaps, with parts that only ONNX Runtime has.
    Unsupported(String),
    /// There is not enough memory.
    Memory,
    /// The model has another task, reads another number of texts, or reads columns.
    Argument(String),
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::File(name, reason) => write!(to, "{name}: {reason}"),
            Error::Damaged(reason) | Error::Unsupported(reason) | Error::Argument(reason) => to.write_str(reason),
            Error::Memory => to.write_str("out of memory"),
        }
    }
}

impl error::Error for Error {}

/// A label with its probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Score<'a> {
    pub label: &'a str,
    pub probability: f64,
}

#[repr(C)]
struct Text {
    first: *const c_char,
    first_size: usize,
    second: *const c_char,
    second_size: usize,
    cells: *const c_void,
}

#[link(name = "mixling", kind = "static")]
extern "C" {
    fn mixling_open(
        data: *const c_void,
        size: usize,
        model: *mut *mut c_void,
        error: *mut c_char,
        error_size: usize,
    ) -> c_int;
    fn mixling_close(model: *mut c_void);
    fn mixling_num_labels(model: *const c_void) -> usize;
    fn mixling_label(model: *const c_void, index: usize) -> *const c_char;
    fn mixling_abstains(model: *const c_void) -> c_int;
    fn mixling_task(model: *const c_void) -> *const c_char;
    fn mixling_start(model: *const c_void, cache_bytes: usize, seed: u64, worker: *mut *mut c_void) -> c_int;
    fn mixling_stop(worker: *mut c_void);
    fn mixling_predict_long(
        worker: *mut c_void,
        texts: *const Text,
        n: usize,
        logits: *mut f32,
        flags: *mut u8,
    ) -> c_int;
}

#[cfg_attr(unix, link(name = "m"))]
extern "C" {}

/// A model that was opened.
#[derive(Debug)]
pub struct Model {
    model: *mut c_void,
    labels: Vec<String>,
    task: String,
}

// SAFETY: mixling.h promises that a model never changes after `mixling_open`, and that any number of threads may share it.
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

impl Model {
    /// Load a `model.onnx`.
    pub fn load(path: impl AsRef<Path>) -> Result<Model, Error> {
        let name = path.as_ref().display().to_string();
        let content = fs::read(path).map_err(|reason| Error::File(name.clone(), reason))?;
        Model::from_bytes(&content).map_err(|found| match found {
            Error::Damaged(reason) => Error::Damaged(format!("{name}: {reason}")),
            Error::Unsupported(reason) => Error::Unsupported(format!("{name}: {reason}")),
            other => other,
        })
    }

    /// Load a model from the bytes of its file, which are not needed afterwards.
    pub fn from_bytes(content: &[u8]) -> Result<Model, Error> {
        let mut model = ptr::null_mut();
        let mut reason = [0 as c_char; 300];
        // SAFETY: all pointers are to memory of the sizes that are passed; a reason ends in NUL.
        let code = unsafe {
            mixling_open(content.as_ptr().cast(), content.len(), &mut model, reason.as_mut_ptr(), reason.len())
        };
        if code != 0 {
            let reason = unsafe { text(reason.as_ptr()) };
            return Err(match code {
                1 => Error::Damaged(reason),
                2 => Error::Unsupported(reason),
                _ => Error::Memory,
            });
        }
        // SAFETY: the model is open, and indices are below the number of labels.
        let labels = unsafe { (0..mixling_num_labels(model)).map(|i| text(mixling_label(model, i))).collect() };
        let task = unsafe { text(mixling_task(model)) };
        Ok(Model { model, labels, task })
    }

    /// "classification", "multi_label", "regression", "tagging" or "question_answering".
    pub fn task(&self) -> &str {
        &self.task
    }

    /// The labels, in the order of the logits.
    pub fn labels(&self) -> &[String] {
        &self.labels
    }

    /// Whether the model has a threshold, sets of labels or a rule for its answers, which are not applied here.
    pub fn abstains(&self) -> bool {
        unsafe { mixling_abstains(self.model) != 0 }
    }

    /// Make a worker for one thread, with about this memory for words that were met.
    pub fn worker(&self, cache_bytes: usize) -> Result<Worker<'_>, Error> {
        // The seed keeps authors of texts from choosing words that collide in the cache.
        let seed = std::collections::hash_map::RandomState::new().build_hasher().finish();
        let mut worker = ptr::null_mut();
        match unsafe { mixling_start(self.model, cache_bytes, seed, &mut worker) } {
            0 => Ok(Worker { worker, model: self }),
            _ => Err(Error::Memory),
        }
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { mixling_close(self.model) }
    }
}

/// Predicts with a model, for one thread at a time.
#[derive(Debug)]
pub struct Worker<'a> {
    worker: *mut c_void,
    model: &'a Model,
}

// SAFETY: a worker may be used by any thread, by one at a time, which `&mut self` ensures.
unsafe impl Send for Worker<'_> {}

impl<'a> Worker<'a> {
    /// The most probable label of a text.
    pub fn predict(&mut self, text: &str) -> Result<&'a str, Error> {
        let found = self.top_k(text, 1)?;
        found.first().map(|score| score.label).ok_or_else(|| Error::Argument("the model has no labels".into()))
    }

    /// The most probable labels of a text, at most `k`, the most probable first.
    pub fn top_k(&mut self, text: &str, k: usize) -> Result<Vec<Score<'a>>, Error> {
        let logits = self.logits(text, None)?;
        let mut scores: Vec<Score> = (self.model.labels.iter().zip(self.probabilities(&logits)?))
            .map(|(label, probability)| Score { label, probability })
            .collect();
        scores.sort_by(|a, b| b.probability.total_cmp(&a.probability));
        scores.truncate(k);
        Ok(scores)
    }

    /// The raw scores of the labels for a text, or for a pair of texts.
    pub fn logits(&mut self, first: &str, second: Option<&str>) -> Result<Vec<f32>, Error> {
        let text = Text {
            first: first.as_ptr().cast(),
            first_size: first.len(),
            second: second.map_or(ptr::null(), |text| text.as_ptr().cast()),
            second_size: second.map_or(0, str::len),
            cells: ptr::null(),
        };
        let mut logits = vec![0.0; self.model.labels.len().max(1)];
        let mut flags = 0;
        // SAFETY: there is room for a logit of each label, and for the flags of one text.
        match unsafe { mixling_predict_long(self.worker, &text, 1, logits.as_mut_ptr(), &mut flags) } {
            0 => Ok(logits),
            3 => Err(Error::Memory),
            _ => Err(Error::Argument(format!(
                "the model's task is {}, or it reads another number of texts, or columns beside them",
                self.model.task
            ))),
        }
    }

    /// The probability of each label: by softmax, or of each by itself in a model of several labels.
    pub fn probabilities(&self, logits: &[f32]) -> Result<Vec<f64>, Error> {
        match self.model.task.as_str() {
            "multi_label" => Ok(logits.iter().map(|&logit| 1.0 / (1.0 + (-f64::from(logit)).exp())).collect()),
            "classification" => {
                let highest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let powers: Vec<f64> = logits.iter().map(|&logit| f64::from(logit - highest).exp()).collect();
                let sum: f64 = powers.iter().sum();
                Ok(powers.iter().map(|power| power / sum).collect())
            }
            task => Err(Error::Argument(format!("the model's task is {task}; allowed: classification, multi_label"))),
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        unsafe { mixling_stop(self.worker) }
    }
}

/// Copy a string of C; names of a model are UTF-8.
unsafe fn text(from: *const c_char) -> String {
    CStr::from_ptr(from).to_string_lossy().into_owned()
}
