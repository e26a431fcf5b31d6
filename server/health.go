package server

import (
	"encoding/json"
	"net/http"
)

// Health is the JSON of /health.
type Health struct {
	Status string `json:"status"` // "ok" or "draining"
	// The rest is for those who may use the server.
	*HealthDetails
}

// HealthDetails is what a server holds.
type HealthDetails struct {
	Version       string         `json:"version"`
	UptimeSeconds int64          `json:"uptimeSeconds"`
	Connections   int            `json:"connections"`
	Sessions      HealthSessions `json:"sessions"`
	Processes     *int           `json:"processes,omitempty"` // running now
}

// HealthSessions counts sessions.
type HealthSessions struct {
	Attached int `json:"attached"`
	Detached int `json:"detached"`
}

func (h *handler) health(w http.ResponseWriter, r *http.Request) {
	health, status := Health{Status: "ok"}, http.StatusOK
	if h.server.Draining() {
		health.Status, status = "draining", http.StatusServiceUnavailable
	}
	if h.authorize(r) == nil {
		stats := h.server.Stats()
		health.HealthDetails = &HealthDetails{
			Version: h.cfg.Version, UptimeSeconds: int64(stats.Uptime.Seconds()), Connections: stats.Connections,
			Sessions: HealthSessions{Attached: stats.SessionsAttached, Detached: stats.SessionsDetached},
		}
		if h.cfg.Processes != nil {
			n := h.cfg.Processes()
			health.Processes = &n
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(health) // fails only when nobody is there to read it
}
