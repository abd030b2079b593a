{{/* Base name of everything in the release: the release's name, with the chart's name if it does not contain that. */}}
{{- define "forebay.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "forebay.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end }}

{{- define "forebay.labels" -}}
{{ include "forebay.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "forebay.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "forebay.name" .) -}}
{{- else -}}
{{- required "serviceAccount.name: name an existing ServiceAccount, or set serviceAccount.create to true" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{/* The command-line flag of [name, value]: a boolean is a switch, and a number is never written as 1e+06. */}}
{{- define "forebay.flag" -}}
{{- $name := first . -}}
{{- $value := last . -}}
{{- if kindIs "bool" $value -}}
{{- ternary "--" "--no-" $value }}{{ $name -}}
{{- else if kindIs "string" $value -}}
{{- printf "--%s=%s" $name $value -}}
{{- else -}}
{{- printf "--%s=%s" $name (toJson $value) -}}
{{- end -}}
{{- end }}
