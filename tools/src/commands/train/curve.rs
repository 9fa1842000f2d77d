//! How training went: losses and accuracies by epoch, as a table and as a picture.

use std::cmp::Ordering;
use std::fmt::Write;
use std::path::Path;

use arrays::Arrays;
use ir_core::{DType, Diagnostic, Diagnostics, TensorData, files};
use runtime::training::Score;

use super::cannot_write;

/// What is known after an epoch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epoch {
    /// The mean of the losses of its steps.
    pub(super) loss: f64,
    /// How good the weights were at its end.
    pub(super) test: Option<Score>,
}

/// How training went so far.
#[derive(Default, Debug)]
pub(super) struct Curve {
    pub(super) epochs: Vec<Epoch>,
    /// The sum of the losses of the steps since the last epoch.
    sum: f64,
}

/// The names of the arrays that a checkpoint keeps of it.
const SUM: &str = "curve/sum";
const LOSS: &str = "curve/loss";
const TEST_LOSS: &str = "curve/test_loss";
const ACCURACY: &str = "curve/accuracy";

impl Curve {
    /// Adds the loss of a step.
    pub(super) fn add(&mut self, loss: f64) {
        self.sum += loss;
    }

    /// Ends an epoch of `steps` steps.
    pub(super) fn end_epoch(&mut self, steps: usize, test: Option<Score>) -> Epoch {
        let epoch = Epoch { loss: self.sum / steps as f64, test };
        self.epochs.push(epoch);
        self.sum = 0.0;
        epoch
    }

    /// What a checkpoint keeps. What was not computed is no number.
    pub(super) fn arrays(&self) -> Vec<(String, TensorData)> {
        let column = |value: fn(&Epoch) -> Option<f64>| {
            self.epochs.iter().map(|epoch| value(epoch).unwrap_or(f64::NAN)).collect()
        };
        let columns: [(&str, Vec<f64>); 4] = [
            (SUM, vec![self.sum]),
            (LOSS, column(|epoch| Some(epoch.loss))),
            (TEST_LOSS, column(|epoch| Some(epoch.test?.loss))),
            (ACCURACY, column(|epoch| epoch.test?.accuracy)),
        ];
        let array = |values: &[f64]| {
            TensorData::from_f64(DType::FLOAT64, &[values.len() as i64], values)
                .expect("a vector has as many elements as it has")
        };
        columns.map(|(name, values)| (name.to_string(), array(&values))).to_vec()
    }

    /// What `checkpoint` kept after `epochs` epochs.
    ///
    /// # Errors
    /// When it has no such arrays.
    pub(super) fn restore(checkpoint: &Arrays, epochs: usize) -> Result<Curve, Diagnostic> {
        let column = |name: &str, count: usize| {
            let values = checkpoint.get(name).map(TensorData::to_f64);
            values.filter(|values| values.len() == count).ok_or_else(|| {
                let message = format!("the checkpoint has no array `{name}` of {count} numbers");
                Diagnostic::error("E0739", message)
            })
        };
        let (loss, sum) = (column(LOSS, epochs)?, column(SUM, 1)?);
        let (test, accuracy) = (column(TEST_LOSS, epochs)?, column(ACCURACY, epochs)?);
        let known = |value: f64| Some(value).filter(|value| !value.is_nan());
        let epochs = loss.into_iter().zip(test.into_iter().zip(accuracy));
        let epochs = epochs.map(|(loss, (test, accuracy))| Epoch {
            loss,
            test: known(test).map(|loss| Score { loss, accuracy: known(accuracy) }),
        });
        Ok(Curve { epochs: epochs.collect(), sum: sum[0] })
    }

    /// Writes it to a file, as its extension says.
    ///
    /// # Errors
    /// When that cannot be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), Diagnostics> {
        let text = if is_picture(path) { self.picture() } else { self.table() };
        files::write(path, text)
            .map_err(|error| cannot_write(&format!("`{}`", path.display()), &error).into())
    }

    fn table(&self) -> String {
        let mut text = "epoch,loss,test_loss,accuracy\n".to_string();
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        for (index, epoch) in self.epochs.iter().enumerate() {
            let (test, accuracy) =
                (epoch.test.map(|test| test.loss), epoch.test.and_then(|test| test.accuracy));
            let (loss, test, accuracy) = (epoch.loss, number(test), number(accuracy));
            text += &format!("{},{loss},{test},{accuracy}\n", index + 1);
        }
        text
    }

    fn picture(&self) -> String {
        let all = |value: fn(&Epoch) -> Option<f64>| {
            let values = self.epochs.iter().enumerate();
            values.filter_map(|(index, epoch)| Some((index + 1, value(epoch)?))).collect()
        };
        let loss = Line { name: "loss", colour: "#0060c0", points: all(|epoch| Some(epoch.loss)) };
        let test = all(|epoch| Some(epoch.test?.loss));
        let test = Line { name: "test loss", colour: "#c04000", points: test };
        let accuracy = all(|epoch| epoch.test?.accuracy);
        let accuracy = Line { name: "accuracy", colour: "#207020", points: accuracy };
        let panels = [vec![loss, test], vec![accuracy]].map(|mut lines| {
            lines.retain(|line| !line.points.is_empty());
            lines
        });
        let panels: Vec<Vec<Line>> = panels.into_iter().filter(|lines| !lines.is_empty()).collect();
        let height = HEIGHT * panels.len().max(1) as f64;
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{height}\" fill=\"white\"/>\n"
        );
        for (index, lines) in panels.iter().enumerate() {
            draw(lines, self.epochs.len(), HEIGHT * index as f64, &mut text);
        }
        text + "</svg>\n"
    }
}

/// The size of a panel, in pixels, and the room around what it shows.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 240.0;
const ROOM: [f64; 4] = [24.0, 100.0, 32.0, 56.0];

/// Values by epoch.
struct Line {
    name: &'static str,
    colour: &'static str,
    points: Vec<(usize, f64)>,
}

/// Draws `lines`, which end at epoch `epochs`, in a panel from `top` on.
fn draw(lines: &[Line], epochs: usize, top: f64, text: &mut String) {
    let [above, right, below, left] = ROOM;
    let values = lines.iter().flat_map(|line| &line.points).map(|(_, value)| *value);
    let values = values.filter(|value| value.is_finite());
    let (least, most) = values
        .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
    // There may be one value, or none that is finite.
    let (least, most) = match least.partial_cmp(&most) {
        Some(Ordering::Less) => (least, most),
        Some(Ordering::Equal) => (least - 0.5, least + 0.5),
        _ => (0.0, 1.0),
    };
    let x = |epoch: usize| {
        let part = (epoch - 1) as f64 / epochs.saturating_sub(1).max(1) as f64;
        left + part * (WIDTH - left - right)
    };
    let y = |value: f64| top + above + (most - value) / (most - least) * (HEIGHT - above - below);
    let mut add =
        |line: String| text.write_fmt(format_args!("{line}\n")).expect("a string takes all");
    for value in [least, (least + most) / 2.0, most] {
        let (y, end) = (y(value), WIDTH - right);
        add(format!("<path d=\"M{left} {y:.1}H{end}\" stroke=\"#d0d0d0\"/>"));
        let (x, y) = (left - 6.0, y + 4.0);
        add(format!("<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", label(value)));
    }
    for epoch in [1, epochs] {
        let (x, y) = (x(epoch), top + HEIGHT - below + 18.0);
        add(format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{epoch}</text>"));
    }
    for (index, Line { name, colour, points }) in lines.iter().enumerate() {
        let points = points.iter().filter(|(_, value)| value.is_finite());
        let points = points.map(|(epoch, value)| format!("{:.1},{:.1}", x(*epoch), y(*value)));
        let points: Vec<String> = points.collect();
        let line = points.join(" ");
        add(format!(
            "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        ));
        if let Some((x, y)) = points.last().and_then(|point| point.split_once(',')) {
            add(format!("<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>"));
        }
        let (x, y) = (WIDTH - right + 12.0, top + above + 14.0 * index as f64);
        add(format!("<text x=\"{x}\" y=\"{y:.1}\" fill=\"{colour}\">{name}</text>"));
    }
}

/// `value` in a few characters.
fn label(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-3..1e5).contains(&size) => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

fn is_picture(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}

/// Whether a curve could be written to the file at `path`.
///
/// # Errors
/// When it ends in something else, or cannot be written.
pub(super) fn check_writable(path: &Path) -> Result<(), Diagnostic> {
    if !(is_picture(path) || path.extension().is_some_and(|extension| extension == "csv")) {
        let message = format!("`{}` is no file for a curve", path.display());
        return Err(
            Diagnostic::error("E0724", message).help("use a file that ends in .csv or .svg")
        );
    }
    let created = files::OutputFile::create(path);
    created.map(drop).map_err(|error| cannot_write(&format!("`{}`", path.display()), &error))
}
