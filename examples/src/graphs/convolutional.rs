//! Networks over images.

use super::{Graph, Image};

impl Graph {
    fn image(&mut self, channels: usize, extent: usize) -> Image {
        let name = self.input(&[1, channels, extent, extent]);
        Image { name, channels, extent }
    }

    /// A convolution whose padding keeps the extents, but for `stride`.
    fn convolution(
        &mut self,
        x: &Image,
        channels: usize,
        (height, width): (usize, usize),
        stride: usize,
        groups: usize,
    ) -> Image {
        let w = self.weight(&[channels, x.channels / groups, height, width]);
        let mut text = format!("nn.conv2d({}, {w}", x.name);
        if stride > 1 {
            text += &format!(", strides=[{stride}, {stride}]");
        }
        if height.max(width) > 1 {
            text += &format!(", padding=[{}, {}]", height / 2, width / 2);
        }
        if groups > 1 {
            text += &format!(", groups={groups}");
        }
        let name = self.op(&(text + ")"));
        Image { name, channels, extent: x.extent.div_ceil(stride) }
    }

    fn relu(&mut self, x: &Image) -> Image {
        Image { name: self.op(&format!("nn.relu({})", x.name)), ..x.clone() }
    }

    fn conv_relu(
        &mut self,
        x: &Image,
        channels: usize,
        kernel: (usize, usize),
        stride: usize,
    ) -> Image {
        let x = self.convolution(x, channels, kernel, stride, 1);
        self.relu(&x)
    }

    /// A pooling of 3 by 3.
    fn pool(&mut self, kind: &str, x: &Image, stride: usize) -> Image {
        let name = self.op(&format!(
            "nn.{kind}_pool2d({}, pool_size=[3, 3], strides=[{stride}, {stride}], padding=[1, 1])",
            x.name
        ));
        Image { name, extent: x.extent.div_ceil(stride), ..x.clone() }
    }

    fn concatenate(&mut self, parts: &[Image]) -> Image {
        let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
        let name = self.op(&format!("concatenate(({}), axis=1)", names.join(", ")));
        let channels = parts.iter().map(|part| part.channels).sum();
        Image { name, channels, extent: parts[0].extent }
    }

    fn sum(&mut self, a: &Image, b: &Image) -> Image {
        Image { name: self.op(&format!("add({}, {})", a.name, b.name)), ..a.clone() }
    }

    /// A classifier of 1000 classes over the mean of all positions.
    fn classified(mut self, x: &Image) -> String {
        let mean = self.op(&format!("nn.global_avg_pool2d({})", x.name));
        let flat = self.op(&format!("nn.batch_flatten({mean})"));
        let w = self.weight(&[1000, x.channels]);
        let result = self.op(&format!("nn.dense({flat}, {w})"));
        self.text(&result)
    }
}

/// ResNeXt-50, 32 groups of width 4 (Xie et al., arXiv 1611.05431, table 1), without batch
/// normalization, which inference folds.
pub fn resnext_50() -> String {
    resnext_of(224, 1)
}

/// The same for images of another extent, with fewer channels and groups.
pub(super) fn resnext_of(extent: usize, fewer: usize) -> String {
    let mut g = Graph::default();
    let x = g.image(3, extent);
    let x = g.conv_relu(&x, 64 / fewer, (7, 7), 2);
    let mut x = g.pool("max", &x, 2);
    for (blocks, width, stride) in [(3, 128, 1), (4, 256, 2), (6, 512, 2), (3, 1024, 2)] {
        let width = width / fewer;
        for block in 0..blocks {
            let stride = if block == 0 { stride } else { 1 };
            let inner = g.conv_relu(&x, width, (1, 1), 1);
            let inner = g.convolution(&inner, width, (3, 3), stride, 32 / fewer);
            let inner = g.relu(&inner);
            let inner = g.convolution(&inner, 2 * width, (1, 1), 1, 1);
            if block == 0 {
                x = g.convolution(&x, 2 * width, (1, 1), stride, 1);
            }
            let sum = g.sum(&inner, &x);
            x = g.relu(&sum);
        }
    }
    g.classified(&x)
}

/// NASNet-A (Zoph et al., arXiv 1707.07012, figure 4): 3 times 5 normal cells, with a reduction
/// cell after each.
pub fn nasnet_a() -> String {
    nasnet_of(224, 1)
}

/// The same for images of another extent, with fewer channels.
pub(super) fn nasnet_of(extent: usize, fewer: usize) -> String {
    let mut g = Graph::default();
    let x = g.image(3, extent);
    let x = g.conv_relu(&x, 64 / fewer, (3, 3), 2);
    let mut current = g.pool("max", &x, 2);
    let mut channels = 128 / fewer;
    let mut previous = current.clone();
    for _ in 0..3 {
        for _ in 0..5 {
            let next = normal_cell(&mut g, &previous, &current, channels);
            previous = std::mem::replace(&mut current, next);
        }
        channels *= 2;
        let next = reduction_cell(&mut g, &previous, &current, channels);
        previous = std::mem::replace(&mut current, next);
    }
    g.classified(&current)
}

/// Brings the value before last to the channels and extent of `current`.
fn fit(g: &mut Graph, previous: &Image, current: &Image) -> Image {
    let stride = if previous.extent == current.extent { 1 } else { 2 };
    let kernel = if stride == 1 { (1, 1) } else { (3, 3) };
    g.conv_relu(previous, current.channels, kernel, stride)
}

fn separable(g: &mut Graph, x: &Image, channels: usize, kernel: usize, stride: usize) -> Image {
    let depthwise = g.convolution(x, x.channels, (kernel, kernel), stride, x.channels);
    g.convolution(&depthwise, channels, (1, 1), 1, 1)
}

fn normal_cell(g: &mut Graph, previous: &Image, current: &Image, channels: usize) -> Image {
    let current = g.conv_relu(current, channels, (1, 1), 1);
    let previous = fit(g, previous, &current);
    let mut parts = Vec::new();
    let a = separable(g, &current, channels, 3, 1);
    parts.push(g.sum(&a, &current));
    let (a, b) = (separable(g, &previous, channels, 3, 1), separable(g, &current, channels, 5, 1));
    parts.push(g.sum(&a, &b));
    let a = g.pool("avg", &current, 1);
    parts.push(g.sum(&a, &previous));
    let (a, b) = (g.pool("avg", &previous, 1), g.pool("avg", &previous, 1));
    parts.push(g.sum(&a, &b));
    let (a, b) = (separable(g, &previous, channels, 5, 1), separable(g, &previous, channels, 3, 1));
    parts.push(g.sum(&a, &b));
    g.concatenate(&parts)
}

fn reduction_cell(g: &mut Graph, previous: &Image, current: &Image, channels: usize) -> Image {
    let current = g.conv_relu(current, channels, (1, 1), 1);
    let previous = fit(g, previous, &current);
    let (a, b) = (separable(g, &previous, channels, 7, 2), separable(g, &current, channels, 5, 2));
    let first = g.sum(&a, &b);
    let (a, b) = (g.pool("max", &current, 2), separable(g, &previous, channels, 7, 2));
    let second = g.sum(&a, &b);
    let (a, b) = (g.pool("avg", &current, 2), separable(g, &previous, channels, 5, 2));
    let third = g.sum(&a, &b);
    let (a, b) = (g.pool("max", &current, 2), separable(g, &first, channels, 3, 1));
    let fourth = g.sum(&a, &b);
    let a = g.pool("avg", &first, 1);
    let fifth = g.sum(&a, &second);
    g.concatenate(&[third, fourth, fifth])
}

/// SqueezeNet 1.1 (Iandola et al., arXiv 1602.07360).
pub fn squeezenet() -> String {
    squeezenet_of(224, 1)
}

/// The same for images of another extent, with fewer channels.
pub(super) fn squeezenet_of(extent: usize, fewer: usize) -> String {
    let mut g = Graph::default();
    let x = g.image(3, extent);
    let x = g.conv_relu(&x, 64 / fewer, (3, 3), 2);
    let mut x = g.pool("max", &x, 2);
    for (index, (narrow, wide)) in
        [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
            .into_iter()
            .enumerate()
    {
        if index == 2 || index == 4 {
            x = g.pool("max", &x, 2);
        }
        let (narrow, wide) = (narrow / fewer, wide / fewer);
        let squeezed = g.conv_relu(&x, narrow, (1, 1), 1);
        let (a, b) =
            (g.conv_relu(&squeezed, wide, (1, 1), 1), g.conv_relu(&squeezed, wide, (3, 3), 1));
        x = g.concatenate(&[a, b]);
    }
    let x = g.conv_relu(&x, 1000 / fewer, (1, 1), 1);
    let result = g.op(&format!("nn.global_avg_pool2d({})", x.name));
    g.text(&result)
}

/// VGG-19 (Simonyan and Zisserman, arXiv 1409.1556, table 1, column E).
pub fn vgg_19() -> String {
    let mut g = Graph::default();
    let mut x = g.image(3, 224);
    for (count, channels) in [(2, 64), (2, 128), (4, 256), (4, 512), (4, 512)] {
        for _ in 0..count {
            x = g.conv_relu(&x, channels, (3, 3), 1);
        }
        let name = g.op(&format!("nn.max_pool2d({}, pool_size=[2, 2], strides=[2, 2])", x.name));
        x = Image { name, extent: x.extent / 2, ..x };
    }
    let mut value = g.op(&format!("nn.batch_flatten({})", x.name));
    for (inputs, units) in [(25088, 4096), (4096, 4096), (4096, 1000)] {
        let w = g.weight(&[units, inputs]);
        value = g.op(&format!("nn.dense({value}, {w})"));
        if units > 1000 {
            value = g.op(&format!("nn.relu({value})"));
        }
    }
    g.text(&value)
}

/// Inception-v3 (Szegedy et al., arXiv 1512.00567, table 1 and figures 5 to 7), with paddings that
/// keep the extents.
pub fn inception_v3() -> String {
    let mut g = Graph::default();
    let x = g.image(3, 299);
    let x = g.conv_relu(&x, 32, (3, 3), 2);
    let x = g.conv_relu(&x, 32, (3, 3), 1);
    let x = g.conv_relu(&x, 64, (3, 3), 1);
    let x = g.pool("max", &x, 2);
    let x = g.conv_relu(&x, 80, (1, 1), 1);
    let x = g.conv_relu(&x, 192, (3, 3), 1);
    let mut x = g.pool("max", &x, 2);
    for pooled in [32, 64, 64] {
        let a = g.conv_relu(&x, 64, (1, 1), 1);
        let b = g.conv_relu(&x, 48, (1, 1), 1);
        let b = g.conv_relu(&b, 64, (5, 5), 1);
        let c = tower(&mut g, &x, 64, &[(96, (3, 3)), (96, (3, 3))]);
        let d = g.pool("avg", &x, 1);
        let d = g.conv_relu(&d, pooled, (1, 1), 1);
        x = g.concatenate(&[a, b, c, d]);
    }
    let a = g.conv_relu(&x, 384, (3, 3), 2);
    let b = tower(&mut g, &x, 64, &[(96, (3, 3))]);
    let b = g.conv_relu(&b, 96, (3, 3), 2);
    let c = g.pool("max", &x, 2);
    x = g.concatenate(&[a, b, c]);
    for width in [128, 160, 160, 192] {
        let a = g.conv_relu(&x, 192, (1, 1), 1);
        let b = tower(&mut g, &x, width, &[(width, (1, 7)), (192, (7, 1))]);
        let steps = [(width, (7, 1)), (width, (1, 7)), (width, (7, 1)), (192, (1, 7))];
        let c = tower(&mut g, &x, width, &steps);
        let d = g.pool("avg", &x, 1);
        let d = g.conv_relu(&d, 192, (1, 1), 1);
        x = g.concatenate(&[a, b, c, d]);
    }
    let a = g.conv_relu(&x, 192, (1, 1), 1);
    let a = g.conv_relu(&a, 320, (3, 3), 2);
    let b = tower(&mut g, &x, 192, &[(192, (1, 7)), (192, (7, 1))]);
    let b = g.conv_relu(&b, 192, (3, 3), 2);
    let c = g.pool("max", &x, 2);
    x = g.concatenate(&[a, b, c]);
    for _ in 0..2 {
        let a = g.conv_relu(&x, 320, (1, 1), 1);
        let b = g.conv_relu(&x, 384, (1, 1), 1);
        let (b, c) = (g.conv_relu(&b, 384, (1, 3), 1), g.conv_relu(&b, 384, (3, 1), 1));
        let d = tower(&mut g, &x, 448, &[(384, (3, 3))]);
        let (d, e) = (g.conv_relu(&d, 384, (1, 3), 1), g.conv_relu(&d, 384, (3, 1), 1));
        let f = g.pool("avg", &x, 1);
        let f = g.conv_relu(&f, 192, (1, 1), 1);
        x = g.concatenate(&[a, b, c, d, e, f]);
    }
    g.classified(&x)
}

/// A convolution of 1 by 1 to `first` channels, then further ones.
fn tower(g: &mut Graph, x: &Image, first: usize, steps: &[(usize, (usize, usize))]) -> Image {
    let mut x = g.conv_relu(x, first, (1, 1), 1);
    for (channels, kernel) in steps {
        x = g.conv_relu(&x, *channels, *kernel, 1);
    }
    x
}
