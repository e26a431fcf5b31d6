package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/spf13/pflag"

	"github.com/wsd-dev/wsd/server"
	"github.com/wsd-dev/wsd/server/observe"
)

// traceFlush is how long the end of a server waits for the last traces to be sent.
const traceFlush = time.Second

// observeOptions are the flags of how a server is watched.
type observeOptions struct {
	metrics bool
	traces  bool
}

func (o *observeOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.metrics, "metrics", false, "show metrics to Prometheus at /metrics")
	f.BoolVar(&o.traces, "otel", false, "send traces to OpenTelemetry as the environment says, for\ninstance OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318")
}

// observation is what watches a server; the zero value does not.
type observation struct {
	metrics *observe.Metrics
	tracing *observe.Tracing
}

// start makes what the flags ask for. What they do not ask for costs nothing.
func (o *observeOptions) start(ctx context.Context, version string, log *slog.Logger) (*observation, error) {
	out := &observation{}
	if o.metrics {
		out.metrics = observe.NewMetrics(version)
	}
	if o.traces {
		var err error
		if out.tracing, err = observe.NewTracing(ctx, version, log); err != nil {
			return nil, fmt.Errorf("start tracing: %w", err)
		}
	}
	return out, nil
}

// observer is for the server to be.
func (o *observation) observer() server.Observer {
	var all []server.Observer
	if o.tracing != nil {
		all = append(all, o.tracing.Observer())
	}
	if o.metrics != nil {
		all = append(all, o.metrics.Observer())
	}
	if len(all) == 0 {
		return server.Observer{}
	}
	return observe.Join(all...)
}

// page watches srv and is its /metrics, nil without --metrics.
func (o *observation) page(srv *server.Server, processes func() int) http.Handler {
	if o.metrics == nil {
		return nil
	}
	o.metrics.Watch(srv.Stats, processes)
	return o.metrics.Handler()
}

// close sends what is left.
func (o *observation) close(log *slog.Logger) {
	if o.tracing == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), traceFlush)
	defer cancel()
	if err := o.tracing.Shutdown(ctx); err != nil {
		log.Warn("the last traces were not sent", "err", err)
	}
}
