//! The tables of known keys, a section each. LiteLLM's are those of its 1.108 series.
use super::known::Keys;

/// Where a key belongs that stands in the wrong section, with the words to say so.
pub(super) const HOMES: [(&str, &Keys); 7] = [
    ("the top level", &TOP),
    ("`router_settings`", &ROUTER),
    ("`litellm_params`", &PARAMS),
    ("an entry of `model_list`", &ENTRY),
    ("`model_info`", &INFO),
    ("`litellm_settings`", &LITELLM),
    ("`general_settings`", &GENERAL),
];

pub(super) const TOP: Keys = Keys {
    acted: "
        model_list router_settings litellm_settings general_settings environment_variables include
        onegate_settings",
    ignored: "
        assistant_settings callback_settings credential_list default_vertex_config files_settings
        finetune_settings guardrails mcp_servers mcp_settings mcp_tools policies policy_attachments
        prompts search_tools vector_store_registry worker_registry",
};

pub(super) const ENTRY: Keys = Keys { acted: "model_name litellm_params model_info rpm tpm", ignored: "" };

pub(super) const PARAMS: Keys = Keys {
    acted: "
        model api_base base_url api_key rpm tpm weight order timeout request_timeout stream_timeout
        num_retries cooldown_time input_cost_per_token output_cost_per_token mock_response
        custom_llm_provider max_retries",
    ignored: "
        additional_drop_params allowed_openai_params api_version auto_router_config
        auto_router_config_path auto_router_default_model auto_router_embedding_model aws_access_key_id
        aws_bedrock_runtime_endpoint aws_profile_name aws_region_name aws_role_name
        aws_secret_access_key aws_session_name aws_session_token aws_sts_endpoint aws_web_identity_token
        azure_ad_token azure_password azure_scope azure_username base_model budget_duration
        cache_control_injection_points cache_creation_input_token_cost cache_read_input_token_cost
        caching client_id client_secret complexity_router_config configurable_clientside_auth_params
        default_api_key_rpm_limit default_api_key_tpm_limit drop_params extra_body extra_headers
        gcs_bucket_name headers input_cost_per_audio_token input_cost_per_character input_cost_per_pixel
        input_cost_per_second itpm litellm_credential_name max_budget max_file_size_mb
        max_parallel_requests merge_reasoning_content_in_choices mock_delay mock_timeout organization
        otpm output_cost_per_character output_cost_per_pixel output_cost_per_reasoning_token
        output_cost_per_second region_name silent_model stream_timeout_by_service_tier
        supports_system_message tag_regex tags tenant_id timeout_by_service_tier
        use_chat_completions_api use_in_pass_through use_litellm_proxy vector_store_id
        vertex_credentials vertex_location vertex_project watsonx_region_name",
};

/// `model_info` takes any key: these are those that mean something to a router.
pub(super) const INFO: Keys = Keys {
    acted: "
        id blocked order cooldown_time allowed_fails input_cost_per_token output_cost_per_token rpm tpm",
    ignored: "
        access_groups access_windows allow_fail_open allowed_fails_policy
        disable_background_health_check enable_tag_filtering health_check_timeout max_input_tokens
        team_id team_public_model_name",
};

pub(super) const ROUTER: Keys = Keys {
    acted: "
        routing_strategy num_retries max_fallbacks retry_after timeout stream_timeout cooldown_time
        allowed_fails disable_cooldowns enable_pre_call_checks optional_pre_call_checks fallbacks
        default_fallbacks model_group_alias redis_url redis_host redis_port redis_password
        redis_username redis_db redis_ssl cache_kwargs",
    ignored: "
        alerting_config allowed_fails_policy assistants_config background_health_check_model_groups
        cache_responses caching_groups client_ttl content_policy_fallbacks context_window_fallbacks
        debug_level default_litellm_params default_max_parallel_requests default_priority
        deployment_affinity_ttl_seconds enable_health_check_routing enable_tag_filtering
        enable_weighted_failover fallback_on_unsupported_params health_check_ignore_transient_errors
        health_check_staleness_threshold ignore_invalid_deployments model_group_affinity_config
        model_group_retry_policy plugins polling_interval provider_budget_config retry_policy
        router_general_settings routing_groups routing_strategy_args set_verbose tag_filtering_match_any
        tag_routing_prefix",
};

pub(super) const LITELLM: Keys = Keys {
    acted: "
        num_retries request_timeout fallbacks default_fallbacks max_fallbacks allowed_fails cache
        cache_params",
    ignored: "
        add_function_to_prompt audit_log_callbacks budget_duration budget_exceeded_status_code
        callback_settings callbacks content_policy_fallbacks context_window_fallbacks
        custom_provider_map default_end_user_budget default_in_memory_ttl default_internal_user_params
        default_key_generate_params default_redis_batch_cache_expiry default_redis_ttl
        default_team_params default_team_settings disable_add_prefix_to_prompt
        disable_end_user_cost_tracking disable_hf_tokenizer_download disable_token_counter drop_params
        enable_json_schema_validation enable_preview_features enable_redis_auth_cache
        expose_router_debug_in_errors failure_callback force_ipv4 force_redis_hash_tag_grouping
        forward_traceparent_to_llm_provider input_callback json_logs key_generation_settings
        langfuse_default_tags log_raw_request_response max_budget max_end_user_budget
        max_internal_user_budget max_ui_session_budget mcp_aliases model_alias_map modify_params
        num_retries_per_request post_call_rules pre_call_rules priority_reservation
        priority_reservation_settings prometheus_initialize_budget_metrics prometheus_metrics_config
        public_model_groups redact_messages_in_exceptions redact_user_api_key_info
        require_auth_for_metrics_endpoint return_response_headers s3_callback_params service_callback
        set_verbose ssl_certificate ssl_verify store_audit_logs success_callback suppress_debug_info
        tag_budget_config telemetry turn_off_message_logging upperbound_key_generate_params
        use_chat_completions_url_for_anthropic_messages user_url_validation",
};

pub(super) const GENERAL: Keys = Keys {
    acted: "master_key",
    ignored: "
        admin_only_routes admission_queue_timeout_seconds alert_to_webhook_url alert_types alerting
        alerting_args alerting_threshold allow_client_side_credentials allow_requests_on_db_unavailable
        allow_user_auth allowed_ips allowed_routes always_include_stream_usage
        auto_redirect_ui_login_to_sso background_health_check_model_groups background_health_checks
        cancel_on_disconnect completion_model control_plane_url coordination_redis custom_auth
        custom_key_generate custom_sso dangerously_allow_mock_testing_request_params
        database_connection_pool_limit database_connection_timeout database_type database_url
        default_team_disabled disable_adding_master_key_hash_to_db disable_budget_reservation
        disable_error_logs disable_fallbacks_on_per_model_rate_limits disable_master_key_return
        disable_prisma_schema_update disable_reset_budget
        disable_retry_on_max_parallel_request_limit_error disable_spend_logs enable_health_check_routing
        enable_jwt_auth enable_oauth2_auth enable_oauth2_proxy_auth enforce_fallback_model_access
        enforce_user_param enforced_params fail_closed_budget_enforcement
        fail_closed_rate_limit_enforcement forward_client_headers_to_llm_api forward_openai_org_id
        global_max_parallel_requests google_kms_key_name health_check_concurrency health_check_details
        health_check_ignore_transient_errors health_check_interval health_check_staleness_threshold
        include_call_id_in_error_body infer_model_from_keys key_management_settings
        key_management_system litellm_jwtauth litellm_key_header_name max_in_flight_requests_per_worker
        max_parallel_requests max_queued_requests_per_worker max_request_size_mb max_response_size_mb
        maximum_spend_logs_retention_interval maximum_spend_logs_retention_period
        model_list_healthy_only pass_through_endpoints proxy_batch_polling_interval proxy_batch_write_at
        proxy_budget_rescheduler_max_time proxy_budget_rescheduler_min_time
        proxy_config_reload_interval_seconds public_routes service_account_settings
        spend_report_frequency store_model_in_db store_prompts_in_spend_logs supported_db_objects
        token_rate_limit_type ui_access_mode use_azure_key_vault
        use_client_credentials_pass_through_routes use_google_kms use_redis_transaction_buffer
        use_shared_health_check use_x_forwarded_for user_api_key_cache_ttl user_header_mappings
        user_header_name user_mcp_management_mode",
};

/// Keys of `general_settings` that are ours and change nothing yet.
pub(super) const GENERAL_LATER: [&str; 2] = ["keys", "teams"];

pub(super) const ALIAS: Keys = Keys { acted: "model hidden", ignored: "" };

pub(super) const CACHE_KWARGS: Keys =
    Keys { acted: REDIS, ignored: "gcp_service_account gcp_ssl_ca_certs max_connections socket_timeout ttl" };

/// How LiteLLM's Redis client is told where to go.
const REDIS: &str = "
        url host port password username db ssl ssl_ca_certs ssl_certfile ssl_keyfile ssl_check_hostname
        ssl_cert_reqs startup_nodes sentinel_nodes service_name sentinel_password namespace";

/// `litellm_settings.cache_params`: where its cache is Redis, the ledger may live there too.
pub(super) const CACHE_PARAMS: Keys = Keys {
    acted: "
        type url host port password username db ssl ssl_ca_certs ssl_certfile ssl_keyfile
        ssl_check_hostname ssl_cert_reqs startup_nodes redis_startup_nodes sentinel_nodes service_name
        sentinel_password namespace",
    ignored: "
        cache_key_generator default_in_memory_ttl default_in_redis_ttl disk_cache_dir
        gcp_service_account gcp_ssl_ca_certs max_connections mode qdrant_api_base qdrant_collection_name
        qdrant_quantization_config redis_flush_size redis_semantic_cache_embedding_model
        redis_semantic_cache_index_name s3_api_version s3_aws_access_key_id
        s3_aws_secret_access_key s3_aws_session_token s3_bucket_name s3_endpoint_url s3_region_name
        s3_use_ssl s3_verify similarity_threshold socket_timeout supported_call_types ttl",
};

pub(super) const ONEGATE: Keys = Keys { acted: "breaker ledger", ignored: "" };

pub(super) const BREAKER: Keys = Keys { acted: "backoff", ignored: "" };

pub(super) const LEDGER: Keys =
    Keys { acted: "namespace on_outage sentinel_ssl sentinel_username tpm_hold", ignored: "" };

pub(super) const ON_OUTAGE: Keys = Keys { acted: "limits budgets", ignored: "" };
