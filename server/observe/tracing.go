package observe

import (
	"context"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/wsd-dev/wsd/protocol/rpc"
	"github.com/wsd-dev/wsd/protocol/wire"
	"github.com/wsd-dev/wsd/server"
)

// Tracing makes a span of each request, as part of the client's trace if the request
// has a trace member (W3C Trace Context).
type Tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// NewTracing sends spans by OTLP over HTTP to where the standard environment variables
// say: OTEL_EXPORTER_OTLP_ENDPOINT and its relatives, OTEL_TRACES_SAMPLER,
// OTEL_SERVICE_NAME ("wsd" if unset) and OTEL_RESOURCE_ATTRIBUTES. Failures to send go
// to logger; they never hold up a request. It sets OpenTelemetry's error handler for
// the whole program.
func NewTracing(ctx context.Context, version string, logger *slog.Logger) (*Tracing, error) {
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("make OTLP exporter: %w", err)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("tracing", "err", err) }))
	what, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "wsd"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("describe this program: %w", err)
	}
	return newTracing(sdktrace.WithBatcher(exporter), sdktrace.WithResource(what)), nil
}

func newTracing(opts ...sdktrace.TracerProviderOption) *Tracing {
	provider := sdktrace.NewTracerProvider(opts...)
	return &Tracing{provider: provider, tracer: provider.Tracer("github.com/wsd-dev/wsd/server/observe")}
}

// Observer is for server.Config.
func (t *Tracing) Observer() server.Observer { return server.Observer{Request: t.request} }

// Shutdown sends what is left, within ctx, and ends.
func (t *Tracing) Shutdown(ctx context.Context) error { return t.provider.Shutdown(ctx) }

func (t *Tracing) request(ctx context.Context, method string, parent wire.TraceContext) (context.Context, func(error)) {
	if parent.Traceparent != "" {
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{
			"traceparent": parent.Traceparent, "tracestate": parent.Tracestate,
		})
	}
	ctx, span := t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("rpc.system", "jsonrpc"), attribute.String("rpc.method", method)))
	return ctx, func(err error) {
		if failure := rpc.WireError(err); failure != nil {
			// The code alone: messages may name a client's files.
			span.SetAttributes(attribute.Int64("rpc.jsonrpc.error_code", int64(failure.Code)))
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
