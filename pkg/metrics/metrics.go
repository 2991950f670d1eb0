package metrics

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// defaultMaxObjects is the maximum number of topics and channels with their
	// own series.
	defaultMaxObjects = 2000
	// maxScrapes is the maximum number of concurrent scrapes; further ones are
	// refused and must be retried.
	maxScrapes    = 4
	scrapeTimeout = 30 * time.Second
)

// Options configures Metrics. All fields may be zero.
type Options struct {
	Version  string // of the program
	Revision string // of its source
	Node     string // this node's id
	Zone     string // this node's failure domain
	Started  time.Time
	// Read returns the values of a node. It is called once per scrape, possibly by several
	// scrapes concurrently, and should not block. nil: there are none.
	Read func() Values
	// Detail returns the values of a node for Detailed. nil: there are none.
	Detail func(Question) Detail
	// MaxObjects bounds the topics and channels with their own series. 0:
	// defaultMaxObjects.
	MaxObjects int
}

// Metrics holds the metrics of one node. Its methods are safe for concurrent
// use.
type Metrics struct {
	registry   *prometheus.Registry
	histograms *Histograms
	detail     func(Question) Detail
	detailing  chan struct{} // holds one for each answer of Detailed that is being made
}

// New returns the metrics of a node.
func New(o Options) *Metrics {
	if o.MaxObjects <= 0 {
		o.MaxObjects = defaultMaxObjects
	}
	m := &Metrics{registry: prometheus.NewRegistry(), detail: o.Detail, detailing: make(chan struct{}, maxDetailing)}
	m.registry.MustRegister(
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsScheduler, collectors.MetricsGC)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		info("brokerd_build_info", "Build of the running program; always 1.",
			prometheus.Labels{"version": o.Version, "revision": o.Revision, "go_version": runtime.Version()}),
		info("brokerd_node_info", "Identity of this node; always 1.",
			prometheus.Labels{"node": o.Node, "zone": o.Zone}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "brokerd_uptime_seconds", Help: "Process uptime.",
		}, func() float64 { return time.Since(o.Started).Seconds() }),
	)
	if o.Read != nil {
		m.registry.MustRegister(&snapshot{o.Read, o.MaxObjects})
	}
	m.histograms = newHistograms(m.registry)
	return m
}

// Histograms returns the recorder of durations and sizes.
func (m *Metrics) Histograms() *Histograms { return m.histograms }

// Handler serves a scrape.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		Timeout:             scrapeTimeout,
	})
}

// info is a gauge that is always 1; its labels have the information.
func info(name, help string, labels prometheus.Labels) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
	g.Set(1)
	return g
}
