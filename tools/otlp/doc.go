// Package otlp checks brokerd's spans with the OTLP receiver of the OpenTelemetry Collector. It
// is a module of its own: the receiver has many others below it.
package otlp
