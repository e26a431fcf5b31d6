package observe

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
	"github.com/wsd-dev/wsd/server"
)

// Metrics counts what a server does:
//
//	wsd_requests_total{method,code}          requests that ran; code is "ok" or the error's
//	wsd_request_duration_seconds{method}     how long they ran
//	wsd_requests_in_flight                   how many run
//	wsd_message_bytes_total{direction}       bytes of messages, "in" and "out"
//	wsd_messages_total{direction}            messages
//	wsd_connections                          connections
//	wsd_sessions{state}                      sessions, "attached" and "detached"
//	wsd_processes                            running processes
//	wsd_memory_budget_bytes                  memory that connections may hold together
//	wsd_memory_used_bytes                    what of it they hold
//	wsd_build_info{version}                  1
//
// and the figures of the Go runtime and of the program's process. Requests that were
// refused before they ran, for their method, parameters or time, are not counted.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	inFlight prometheus.Gauge
	bytes    *prometheus.CounterVec
	messages *prometheus.CounterVec
}

// NewMetrics makes Metrics of a server yet to be made.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wsd_requests_total", Help: "Requests, by method and outcome.",
		}, []string{"method", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "wsd_request_duration_seconds", Help: "How long requests ran.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10), // 0.1 ms to 26 s
		}, []string{"method"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "wsd_requests_in_flight", Help: "Requests that run."}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wsd_message_bytes_total", Help: "Bytes of JSON-RPC messages, without framing.",
		}, []string{"direction"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "wsd_messages_total", Help: "JSON-RPC messages.",
		}, []string{"direction"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "wsd_build_info", Help: "What is running; always 1.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(m.requests, m.duration, m.inFlight, m.bytes, m.messages, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Watch adds what is asked for when metrics are read: the server's figures and the
// number of running processes. Either may be nil. It is called once.
func (m *Metrics) Watch(stats func() server.Stats, processes func() int) {
	gauge := func(name, help string, labels prometheus.Labels, value func() int) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels},
			func() float64 { return float64(value()) }))
	}
	if stats != nil {
		gauge("wsd_memory_budget_bytes", "Memory that all connections may hold together.", nil, func() int { return int(stats().MemoryBudget) })
		gauge("wsd_memory_used_bytes", "Memory that all connections hold together, of the budget.", nil, func() int { return int(stats().MemoryUsed) })
		gauge("wsd_connections", "Connections.", nil, func() int { return stats().Connections })
		const sessions = "Sessions, with and without a connection."
		gauge("wsd_sessions", sessions, prometheus.Labels{"state": "attached"}, func() int { return stats().SessionsAttached })
		gauge("wsd_sessions", sessions, prometheus.Labels{"state": "detached"}, func() int { return stats().SessionsDetached })
	}
	if processes != nil {
		gauge("wsd_processes", "Running processes.", nil, processes)
	}
}

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// Observer is for server.Config.
func (m *Metrics) Observer() server.Observer {
	return server.Observer{Request: m.request, Received: m.counter("in"), Sent: m.counter("out")}
}

func (m *Metrics) request(ctx context.Context, method string, _ wire.TraceContext) (context.Context, func(error)) {
	began := time.Now()
	m.inFlight.Inc()
	return ctx, func(err error) {
		m.inFlight.Dec()
		m.duration.WithLabelValues(method).Observe(time.Since(began).Seconds())
		m.requests.WithLabelValues(method, code(err)).Inc()
	}
}

func code(err error) string {
	if failure := rpc.WireError(err); failure != nil {
		return strconv.FormatInt(int64(failure.Code), 10)
	}
	return "ok"
}

func (m *Metrics) counter(direction string) func(int) {
	bytes, messages := m.bytes.WithLabelValues(direction), m.messages.WithLabelValues(direction)
	return func(n int) {
		messages.Inc()
		bytes.Add(float64(n))
	}
}
